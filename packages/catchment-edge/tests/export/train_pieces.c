/* Functions of the pieces, for calls from Python. The pieces are put before this by the test. */

static uint8_t *written;

static void write_bytes(void *of, const uint8_t *bytes, uint32_t count)
{
    (void)of;
    while (count--)
        *written++ = *bytes++;
}

void digest_of(const uint8_t *bytes, uint32_t count, uint32_t split, uint8_t *digest);
uint32_t crc_of(const uint8_t *bytes, uint32_t count);
uint32_t pack(const int64_t *numbers, uint32_t count, uint8_t *bytes);
int rounded(double x, int digits, uint32_t *size, int n);
void add_product(uint32_t *sum, const uint32_t *a, const uint32_t *b, int negative);
int64_t bits_from(const uint32_t *sum, int n, int first);

void digest_of(const uint8_t *bytes, uint32_t count, uint32_t split, uint8_t *digest)
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, bytes, split);
    sha256_add(&hash, bytes + split, count - split);
    sha256_end(&hash, digest);
}

uint32_t crc_of(const uint8_t *bytes, uint32_t count)
{
    return crc32_added(crc32_added(0, bytes, count / 2), bytes + count / 2, count - count / 2);
}

static const int64_t *packed_numbers;

static uint64_t number_of(uint32_t index)
{
    return (uint64_t)packed_numbers[index];
}

uint32_t pack(const int64_t *numbers, uint32_t count, uint8_t *bytes)
{
    struct sink to = {write_bytes, 0};
    packed_numbers = numbers;
    written = bytes;
    put_packed(&to, number_of, count);
    return packed_length(number_of, count);
}

int rounded(double x, int digits, uint32_t *size, int n)
{
    return wide_of_double(x, digits, size, n);
}

/* Numbers of three words each, into a sum of six. */
void add_product(uint32_t *sum, const uint32_t *a, const uint32_t *b, int negative)
{
    uint32_t product[6];
    wide_product(a, 3, b, 3, product);
    wide_add(sum, 6, product, 6, negative);
}

int64_t bits_from(const uint32_t *sum, int n, int first)
{
    return wide_from(sum, n, first);
}
