/* The program of a device that answers on the link. */
#include "ec_link.h"
#include "fake_model.h"

int main(void) {
    ec_link_serve(&fake_model);
    return 0;
}
