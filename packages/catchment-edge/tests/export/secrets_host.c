/* What the tests call of a device's secrets, as a library. */
#include <stdint.h>
#include "bytes.h"
#include "bytes.c"
#include "sha256.c"
#include "monocypher.h"
#include "boxes.c"
#include "hkdf.c"
#include "shares.c"

struct about {
    const uint8_t *bytes;
    uint32_t length;
};

static void put_about(const struct sink *to, const void *of)
{
    const struct about *about = of;
    put_bytes(to, about->bytes, about->length);
}

int agreed(uint8_t *out, const uint8_t *secret, const uint8_t *point);
int agreed(uint8_t *out, const uint8_t *secret, const uint8_t *point)
{
    return x25519(out, secret, point);
}

void stream(const uint8_t *key, uint32_t counter, uint8_t *out);
void stream(const uint8_t *key, uint32_t counter, uint8_t *out)
{
    chacha_block(key, counter, out);
}

void derive(const uint8_t *secret, const uint8_t *salt, const char *purpose, uint8_t *key);
void derive(const uint8_t *secret, const uint8_t *salt, const char *purpose, uint8_t *key)
{
    struct hmac mac;
    struct sink to;
    to.put = sha256_add;
    to.of = &mac.hash;
    hkdf_begin(&mac, secret, salt);
    put_text(&to, purpose);
    hkdf_end(&mac, key);
}

void seal(const uint8_t *key, const uint8_t *about, uint32_t n, uint8_t *box, uint32_t length);
void seal(const uint8_t *key, const uint8_t *about, uint32_t n, uint8_t *box, uint32_t length)
{
    struct about of;
    of.bytes = about;
    of.length = n;
    box_seal(key, put_about, &of, box, length);
}

int unseal(const uint8_t *key, const uint8_t *about, uint32_t n, uint8_t *box, uint32_t length);
int unseal(const uint8_t *key, const uint8_t *about, uint32_t n, uint8_t *box, uint32_t length)
{
    struct about of;
    of.bytes = about;
    of.length = n;
    return box_open(key, put_about, &of, box, length);
}

void deal(const uint8_t *secret, const uint8_t *key, uint32_t which, uint32_t threshold, uint32_t n,
          uint8_t *out);
void deal(const uint8_t *secret, const uint8_t *key, uint32_t which, uint32_t threshold, uint32_t n,
          uint8_t *out)
{
    uint32_t at;
    for (at = 1; at <= n; at++)
        share_of(secret, key, which, threshold, at, out + SHARE_BYTES * (at - 1));
}
