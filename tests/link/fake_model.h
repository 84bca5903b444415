/* A model for the tests of the link: two inputs, two outputs, a counter as state, two steps. */
#ifndef FAKE_MODEL_H
#define FAKE_MODEL_H

#include "ec_link.h"

#define FAKE_INPUT_BYTES 5000u
#define FAKE_SMALL_BYTES 5u
#define FAKE_TICKS 1000u

extern const ec_link_model fake_model;

/* Implemented by the test's port: let virtual time pass. */
void fake_spend(uint32_t ticks);

#endif
