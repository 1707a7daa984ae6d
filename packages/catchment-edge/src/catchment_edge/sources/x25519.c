/* X25519 (RFC 7748): numbers modulo 2^255 - 19 in eight words, kept below 2^256.
 *
 * Nothing branches on a secret and nothing is looked up by one. */

typedef uint32_t curve[8];

/* Adds 38 for what passed 2^256, which is 38 modulo the prime. */
static void curve_fold(curve r, uint64_t over)
{
    int i, again;
    for (again = 0; again < 2; again++) {
        uint64_t sum = over * 38;
        for (i = 0; i < 8; i++) {
            sum += r[i];
            r[i] = (uint32_t)sum;
            sum >>= 32;
        }
        over = sum;
    }
}

static void curve_add(curve r, const curve a, const curve b)
{
    uint64_t sum = 0;
    int i;
    for (i = 0; i < 8; i++) {
        sum += (uint64_t)a[i] + b[i];
        r[i] = (uint32_t)sum;
        sum >>= 32;
    }
    curve_fold(r, sum);
}

static void curve_subtract(curve r, const curve a, const curve b)
{
    uint64_t borrow = 0, take;
    int i, again;
    for (i = 0; i < 8; i++) {
        uint64_t difference = (uint64_t)a[i] - b[i] - borrow;
        r[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
    for (again = 0; again < 2; again++) {
        take = borrow * 38;
        borrow = 0;
        for (i = 0; i < 8; i++) {
            uint64_t difference = (uint64_t)r[i] - (take & 0xffffffffu) - borrow;
            r[i] = (uint32_t)difference;
            borrow = difference >> 63;
            take = 0;
        }
    }
}

static void curve_multiply(curve r, const curve a, const curve b)
{
    uint32_t t[16] = {0};
    uint64_t sum;
    int i, j;
    for (i = 0; i < 8; i++) {
        sum = 0;
        for (j = 0; j < 8; j++) {
            sum += (uint64_t)a[i] * b[j] + t[i + j];
            t[i + j] = (uint32_t)sum;
            sum >>= 32;
        }
        t[i + 8] = (uint32_t)sum;
    }
    sum = 0;
    for (i = 0; i < 8; i++) {
        sum += (uint64_t)t[i + 8] * 38 + t[i];
        r[i] = (uint32_t)sum;
        sum >>= 32;
    }
    curve_fold(r, sum);
}

/* a^(p - 2): every bit of p - 2 from 254 down is one but 2 and 4. */
static void curve_invert(curve r, const curve a)
{
    curve x;
    int i;
    for (i = 0; i < 8; i++)
        x[i] = a[i];
    for (i = 253; i >= 0; i--) {
        curve_multiply(x, x, x);
        if (i != 2 && i != 4)
            curve_multiply(x, x, a);
    }
    for (i = 0; i < 8; i++)
        r[i] = x[i];
}

/* The one number below the prime that it stands for. */
static void curve_settle(curve r)
{
    uint32_t t[8], keep;
    uint64_t sum;
    int i, again;
    for (again = 0; again < 2; again++) {
        sum = (uint64_t)(r[7] >> 31) * 19;
        r[7] &= 0x7fffffff;
        for (i = 0; i < 8; i++) {
            sum += r[i];
            r[i] = (uint32_t)sum;
            sum >>= 32;
        }
    }
    sum = 19;
    for (i = 0; i < 8; i++) {
        sum += r[i];
        t[i] = (uint32_t)sum;
        sum >>= 32;
    }
    keep = (t[7] >> 31) - 1; /* all ones if it was below the prime */
    t[7] &= 0x7fffffff;
    for (i = 0; i < 8; i++)
        r[i] = (r[i] & keep) | (t[i] & ~keep);
}

static void curve_swap(curve a, curve b, uint32_t wanted)
{
    uint32_t mask = 0 - wanted, t;
    int i;
    for (i = 0; i < 8; i++) {
        t = mask & (a[i] ^ b[i]);
        a[i] ^= t;
        b[i] ^= t;
    }
}

/* One rung of Montgomery's ladder: doubles (x2 : z2), and adds it to (x3 : z3). */
static void curve_rung(curve x2, curve z2, curve x3, curve z3, const curve x1)
{
    static const curve A24 = {121665, 0, 0, 0, 0, 0, 0, 0};
    curve a, b, c, d;
    curve_add(a, x2, z2);
    curve_subtract(b, x2, z2);
    curve_add(c, x3, z3);
    curve_subtract(d, x3, z3);
    curve_multiply(d, d, a);
    curve_multiply(c, c, b);
    curve_add(x3, d, c);
    curve_multiply(x3, x3, x3);
    curve_subtract(z3, d, c);
    curve_multiply(z3, z3, z3);
    curve_multiply(z3, z3, x1);
    curve_multiply(a, a, a);
    curve_multiply(b, b, b);
    curve_multiply(x2, a, b);
    curve_subtract(b, a, b);
    curve_multiply(z2, b, A24);
    curve_add(z2, z2, a);
    curve_multiply(z2, z2, b);
}

/* The secret's multiple of a point; 0 if it is zero, as that of a degenerate point is. */
static int x25519(uint8_t out[32], const uint8_t secret[32], const uint8_t point[32])
{
    curve x1, x2 = {1}, z2 = {0}, x3, z3 = {1};
    uint32_t swap = 0, bit, any = 0;
    int i;
    for (i = 0; i < 8; i++)
        x1[i] = x3[i] = (uint32_t)bytes_value(point + 4 * i, 4);
    x1[7] &= 0x7fffffff;
    x3[7] &= 0x7fffffff;
    for (i = 254; i >= 0; i--) {
        bit = (uint32_t)secret[i / 8] >> (i & 7) & 1;
        if (i < 3)
            bit = 0;
        if (i == 254)
            bit = 1;
        curve_swap(x2, x3, swap ^ bit);
        curve_swap(z2, z3, swap ^ bit);
        swap = bit;
        curve_rung(x2, z2, x3, z3, x1);
    }
    curve_swap(x2, x3, swap);
    curve_swap(z2, z3, swap);
    curve_invert(z2, z2);
    curve_multiply(x2, x2, z2);
    curve_settle(x2);
    for (i = 0; i < 8; i++) {
        bytes_of(x2[i], 4, out + 4 * i);
        any |= x2[i];
    }
    return any != 0;
}
