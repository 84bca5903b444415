"""Search for schedules whose cost is measured on a simulated core: `edgec tune`.

    run.py         a model: its groups, how many trials each gets, what is reported
    search.py      one group: generations of candidates, by mutation and crossover
    decisions.py   what a sketch decided, and may decide otherwise
    sketches/      the spaces: ways to write a nest, each with decisions
    candidates.py  from decisions to a scheduled function
    measure.py     an image of candidates, run on the core and compared with the reference
    workers.py     who measures: local processes, or a farm
    prove.py       a winner equals the nest as its operators define it

What is found goes into a file that `edgec build` takes (`edgec/loop/tuned.py`).
"""
