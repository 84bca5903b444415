"""Default schedules, one file per kind of function; `edgec.loop.policy` chooses."""
