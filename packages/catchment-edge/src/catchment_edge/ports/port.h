/* The lines of a device, which a port gives and a model uses. */
#ifndef CATCHMENT_PORT_H
#define CATCHMENT_PORT_H

#include <stdint.h>

int port_read(uint8_t *one);                           /* from the gateway; 0: the link is closed */
void port_write(const uint8_t *bytes, uint32_t count); /* to the gateway */
int sensor_read(uint8_t *one); /* from the sensor, which no gateway sees; 0: there is no more */

#endif
