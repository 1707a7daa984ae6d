/* @TITLE@ */
#ifndef @UP@_H
#define @UP@_H

#include <stdint.h>

#define @UP@_CHANNELS @CHANNELS@
#define @UP@_OUTPUTS @OUTPUTS@
#define @UP@_FEATURES @FEATURES@
#define @UP@_WINDOW @WINDOW@ /* steps; 0: none */

#ifdef __cplusplus
extern "C" {
#endif

/* Answers frames until the link is closed; what the device holds stays for the next call. */
void @NAME@_serve(void);

/* What the firmware gives. The link to the gateway, and the sensor's line, which the gateway never
 * sees: one byte, and 0 when there will be no more. */
int port_read(uint8_t *one);
void port_write(const uint8_t *bytes, uint32_t count);
int sensor_read(uint8_t *one);

#ifdef __cplusplus
}
#endif

#endif
