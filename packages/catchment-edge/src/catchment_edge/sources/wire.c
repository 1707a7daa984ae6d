#include "wire.h"

/* Bytes of an array if it travels packed, 0 if it does not. */
static uint32_t wire_packed(const struct wire_array *array)
{
    uint32_t length;
    if (!array->whole || array->count <= PACKING_CHUNK)
        return 0;
    length = packed_length(array->at, array->count);
    return length < 8 * array->count ? length : 0;
}

static void put_header(const struct sink *to, const struct wire_message *message,
                       const uint32_t *packed)
{
    uint32_t i;
    put_text(to, "{\"arrays\":[");
    for (i = 0; i < message->n_arrays; i++) {
        put_text(to, i ? "," : "");
        put_text(to, message->arrays[i].described);
        if (packed[i]) {
            put_text(to, ",");
            put_decimal(to, packed[i]);
        }
        put_text(to, "]");
    }
    put_text(to, message->rest);
}

static void put_body(const struct sink *to, const struct wire_message *message,
                     const uint32_t *packed)
{
    uint32_t length = 0, i, k;
    struct sink counter;
    counter.put = count_bytes;
    counter.of = &length;
    put_header(&counter, message, packed);
    put_number(to, length, 4);
    put_header(to, message, packed);
    for (i = 0; i < message->n_arrays; i++) {
        const struct wire_array *array = message->arrays + i;
        if (packed[i])
            put_packed(to, array->at, array->count);
        else
            for (k = 0; k < array->count; k++)
                put_number(to, array->at(k), 8);
    }
}

/* The numbers go by three times: for the lengths, for the hash, and to be sent. */
static void put_message(const struct sink *to, const struct wire_message *message)
{
    struct sha256 hash;
    struct sink hashed;
    uint8_t digest[32];
    uint32_t packed[WIRE_MOST_ARRAYS], i, version = 1;
    for (i = 0; i < message->n_arrays; i++) {
        packed[i] = wire_packed(message->arrays + i);
        if (packed[i])
            version = 2;
    }
    hashed.put = sha256_add;
    hashed.of = &hash;
    sha256_begin(&hash);
    put_body(&hashed, message, packed);
    put_text(to, "CTMT");
    put_number(to, version, 2);
    put_number(to, hash.length, 8);
    sha256_end(&hash, digest);
    put_bytes(to, digest, 32);
    put_body(to, message, packed);
}
