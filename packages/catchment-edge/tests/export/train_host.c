/* A port for tests: frames on the standard input and output, the sensor's line in a file. */
#include <stdio.h>

#include <stdint.h>

int port_read(uint8_t *one);
void port_write(const uint8_t *bytes, uint32_t count);
int sensor_read(uint8_t *one);
void DEVICE_SERVE(void);

static FILE *sensor;

int port_read(uint8_t *one)
{
    int c = getchar();
    *one = (uint8_t)c;
    return c != EOF;
}

void port_write(const uint8_t *bytes, uint32_t count)
{
    fwrite(bytes, 1, count, stdout);
}

int sensor_read(uint8_t *one)
{
    int c = getc(sensor);
    *one = (uint8_t)c;
    return c != EOF;
}

int main(int count, char **words)
{
    sensor = count == 2 ? fopen(words[1], "rb") : 0;
    if (!sensor)
        return 2;
    DEVICE_SERVE();
    return fclose(sensor);
}
