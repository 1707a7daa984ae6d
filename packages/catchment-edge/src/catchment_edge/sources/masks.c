/* A device's half of secure aggregation: its secrets never leave it, and its sums leave it under masks.
 *
 * The gateway speaks for the device: it signs, keeps the books and checks who takes part. The device
 * makes the keys, deals shares of them in boxes, opens the boxes of others and masks its numbers
 * (catchment.privacy.secure_aggregation). It takes the gateway's word for the keys of the others. All
 * secrets of a session are derived from the device's own, so that nothing needs to be drawn and a
 * device that was reset answers the same session alike. */

enum { MASKS_START = 384, MASKS_NAME = 64 };
enum { BOX_BYTES = 2 * SHARE_BYTES + 16 };

struct named {
    uint8_t length, text[MASKS_NAME];
};

struct pair {
    uint8_t key[32], subtracted;
    uint32_t place;
};

static struct {
    uint32_t start_length, place, n_pairs, round, threshold;
    uint8_t start[MASKS_START];
    struct named name;
    uint8_t box_secret[32], mask_secret[32], own[32], dealt[32], told[32];
    struct pair pair[DEVICE_PAIRS];
    uint8_t open, sent; /* sent: the sums of `round` left under the masks of `told` */
} vault;

/* Texts that digests and boxes are bound to */

static void put_start(const struct sink *to, const char *message)
{
    put_bytes(to, vault.start, vault.start_length);
    put_text(to, ",\"");
    put_text(to, message);
}

struct label {
    const struct named *sender, *receiver;
};

/* Has the form of a box's text. */
static void put_label(const struct sink *to, const void *of)
{
    const struct label *label = of;
    put_start(to, "shares\",\"");
    put_bytes(to, label->sender->text, label->sender->length);
    put_text(to, "\",\"");
    put_bytes(to, label->receiver->text, label->receiver->length);
    put_text(to, "\"]");
}

static void derived(const uint8_t secret[32], const uint8_t salt[32], const char *purpose,
                    uint32_t one, uint32_t other, uint8_t key[32])
{
    struct hmac mac;
    struct sink to;
    to.put = sha256_add;
    to.of = &mac.hash;
    hkdf_begin(&mac, secret, salt);
    put_text(&to, purpose);
    put_text(&to, "|");
    put_decimal(&to, one);
    put_text(&to, "|");
    put_decimal(&to, other);
    hkdf_end(&mac, key);
}

static void derived_alone(const uint8_t secret[32], const uint8_t salt[32], const char *purpose,
                          uint8_t key[32])
{
    struct hmac mac;
    struct sink to;
    to.put = sha256_add;
    to.of = &mac.hash;
    hkdf_begin(&mac, secret, salt);
    put_text(&to, purpose);
    hkdf_end(&mac, key);
}

static void share_mark(uint32_t holder, uint32_t which, const uint8_t *share, uint8_t digest[32])
{
    static const uint8_t ZERO = 0;
    struct sha256 hash;
    struct sink to;
    to.put = sha256_add;
    to.of = &hash;
    sha256_begin(&hash);
    put_start(&to, "share|");
    put_decimal(&to, vault.place);
    put_text(&to, "|");
    put_decimal(&to, holder);
    put_text(&to, "|");
    put_decimal(&to, which);
    put_text(&to, "\",\"\",\"\"]");
    put_bytes(&to, &ZERO, 1);
    put_bytes(&to, share, SHARE_BYTES);
    sha256_end(&hash, digest);
}

/* Reads a name at the end of a payload; 0 if it is none. */
static int read_name(uint32_t at, struct named *name)
{
    uint32_t i;
    if (at >= link.length || link.payload[at] > MASKS_NAME || !link.payload[at] ||
        at + 1 + link.payload[at] != link.length)
        return 0;
    name->length = link.payload[at];
    for (i = 0; i < name->length; i++)
        name->text[i] = link.payload[at + 1 + i];
    return 1;
}

static int same_session(uint32_t length)
{
    uint32_t i;
    if (!vault.open || length != vault.start_length ||
        bytes_value(link.payload + 2 + length, 4) != vault.place)
        return 0;
    for (i = 0; i < length; i++)
        if (vault.start[i] != link.payload[2 + i])
            return 0;
    return 1;
}

static void open_session(uint32_t length)
{
    struct sha256 hash;
    uint8_t session[32];
    uint32_t i;
    for (i = 0; i < length; i++)
        vault.start[i] = link.payload[2 + i];
    vault.start_length = length;
    vault.place = (uint32_t)bytes_value(link.payload + 2 + length, 4);
    vault.n_pairs = 0;
    vault.threshold = 0;
    vault.sent = 0;
    vault.open = 1;
    sha256_begin(&hash);
    sha256_add(&hash, vault.start, length);
    sha256_end(&hash, session);
    derived_alone(SECRET, session, "box key", vault.box_secret);
    derived_alone(SECRET, session, "mask key", vault.mask_secret);
    derived_alone(SECRET, session, "own mask", vault.own);
    derived_alone(SECRET, session, "shares", vault.dealt);
}

/* K: a session begins. Its text, the device's place and name; answers two public keys and a digest. */
static void masks_keys(void)
{
    static const uint8_t BASE[32] = {9}, ZERO = 0;
    uint32_t length = (uint32_t)bytes_value(link.payload, 2);
    struct named name;
    struct sha256 hash;
    struct sink to;
    uint8_t answer[96];
    if (length > MASKS_START || !read_name(length + 6, &name)) {
        link_refuse("the session's text or the device's name is too long");
        return;
    }
    if (!same_session(length))
        open_session(length);
    vault.name = name;
    x25519(answer, vault.box_secret, BASE);
    x25519(answer + 32, vault.mask_secret, BASE);
    to.put = sha256_add;
    to.of = &hash;
    sha256_begin(&hash);
    put_start(&to, "own mask\",\"\",\"\"]");
    put_bytes(&to, &ZERO, 1);
    put_bytes(&to, vault.own, 32);
    sha256_end(&hash, answer + 64);
    link_send('y', answer, sizeof answer);
}

/* B: shares for one holder. Transcript, place, threshold, public key, name; answers a box (or, to
 * the device itself, what would be in it) and the digests of the two shares. */
static void masks_deal(void)
{
    const uint8_t *seen = link.payload, *public_key = link.payload + 38;
    uint32_t them = (uint32_t)bytes_value(link.payload + 32, 4);
    uint32_t threshold = (uint32_t)bytes_value(link.payload + 36, 2), own = them == vault.place;
    uint32_t length = own ? 2 * SHARE_BYTES : BOX_BYTES;
    uint8_t answer[BOX_BYTES + 64], shared[32], key[32];
    struct named name;
    struct label label;
    if (!read_name(70, &name)) {
        link_refuse("a holder lacks its name");
        return;
    }
    /* One share of one is the secret itself, and so is the share at zero; two thresholds of one
     * secret would be two polynomials with coefficients in common. */
    if (threshold < 2 || them == 0xffffffffu || (vault.threshold && vault.threshold != threshold)) {
        link_refuse("a threshold below 2, or another one than before, would give secrets away");
        return;
    }
    vault.threshold = threshold;
    share_of(vault.own, vault.dealt, 0, threshold, them + 1, answer);
    share_of(vault.mask_secret, vault.dealt, 1, threshold, them + 1, answer + SHARE_BYTES);
    share_mark(them, 0, answer, answer + length);
    share_mark(them, 1, answer + SHARE_BYTES, answer + length + 32);
    if (!own) {
        if (!x25519(shared, vault.box_secret, public_key)) {
            link_refuse("a public key is degenerate");
            return;
        }
        derived(shared, seen, "share", vault.place, them, key);
        label.sender = &vault.name;
        label.receiver = &name;
        box_seal(key, put_label, &label, answer, 2 * SHARE_BYTES);
    }
    link_send('b', answer, length + 64);
}

/* O: a holder's box. Transcript, place, public key, box, name; answers what is in it. */
static void masks_open(void)
{
    uint32_t them = (uint32_t)bytes_value(link.payload + 32, 4);
    uint8_t *box = link.payload + 68, shared[32], key[32];
    struct named name;
    struct label label;
    if (!read_name(68 + BOX_BYTES, &name) ||
        !x25519(shared, vault.box_secret, link.payload + 36)) {
        link_refuse("a box lacks its name or its key");
        return;
    }
    derived(shared, link.payload, "share", them, vault.place, key);
    label.sender = &name;
    label.receiver = &vault.name;
    if (box_open(key, put_label, &label, box, 2 * SHARE_BYTES))
        link_send('o', box, 2 * SHARE_BYTES);
    else
        link_refuse("the box does not open");
}

static int same_bytes(const uint8_t *one, const uint8_t *other, uint32_t count)
{
    while (count--)
        if (*one++ != *other++)
            return 0;
    return 1;
}

/* N: a neighbor of the sum. What the sum is about, place, public key. */
static void masks_neighbor(void)
{
    uint32_t them = (uint32_t)bytes_value(link.payload + 32, 4), i, here = vault.place;
    uint8_t shared[32];
    struct pair *pair;
    if (!same_bytes(vault.told, link.payload, 32)) {
        if (vault.sent) {
            link_refuse("the sums of this session left under other masks");
            return;
        }
        vault.n_pairs = 0;
        for (i = 0; i < 32; i++)
            vault.told[i] = link.payload[i];
    }
    for (i = 0; i < vault.n_pairs && vault.pair[i].place != them; i++)
        ;
    if (i == DEVICE_PAIRS || them == here) {
        link_refuse("there are more neighbors than the device has room for");
        return;
    }
    pair = vault.pair + i;
    if (!x25519(shared, vault.mask_secret, link.payload + 36)) {
        link_refuse("a public key is degenerate");
        return;
    }
    derived(shared, vault.told, "mask", them < here ? them : here, them < here ? here : them,
            pair->key);
    pair->place = them;
    pair->subtracted = them < here;
    if (i == vault.n_pairs)
        vault.n_pairs++;
    link_send('k', 0, 0);
}

static uint64_t masks_number(uint32_t index)
{
    uint32_t i;
    for (i = 0; index >= SUMS_MESSAGE.arrays[i].count; i++)
        index -= SUMS_MESSAGE.arrays[i].count;
    return SUMS_MESSAGE.arrays[i].whole ? SUMS_MESSAGE.arrays[i].at(index) : sums.rows;
}

static uint32_t masks_length(void)
{
    uint32_t length = 0, i;
    for (i = 0; i < SUMS_MESSAGE.n_arrays; i++)
        length += SUMS_MESSAGE.arrays[i].count;
    return length;
}

static int masks_within(uint64_t most)
{
    uint32_t length = masks_length(), i;
    for (i = 0; i < length; i++) {
        uint64_t value = masks_number(i), size = value >> 63 ? 0 - value : value;
        if (size > most)
            return 0;
    }
    return 1;
}

/* Adds or subtracts 64 bytes of a key's stream. */
static void masks_add(const uint8_t key[32], int subtracted, uint32_t block, uint32_t bytes,
                      uint64_t *numbers)
{
    uint8_t stream[64];
    uint32_t i;
    chacha_block(key, block, stream);
    for (i = 0; i * bytes < 64; i++) {
        uint64_t mask = bytes_value(stream + i * bytes, bytes);
        numbers[i] = subtracted ? numbers[i] - mask : numbers[i] + mask;
    }
}

static void masks_send(uint32_t bytes)
{
    struct sink to = {link_add, 0};
    uint64_t numbers[16];
    uint8_t own[32];
    uint32_t length = masks_length(), each = 64 / bytes, first, i;
    struct hmac mac;
    struct sink purpose;
    purpose.put = sha256_add;
    purpose.of = &mac.hash;
    hkdf_begin(&mac, vault.own, vault.told);
    put_text(&purpose, "own|");
    put_decimal(&purpose, vault.place);
    hkdf_end(&mac, own);
    for (first = 0; first < length; first += each) {
        for (i = 0; i < each; i++)
            numbers[i] = first + i < length ? masks_number(first + i) : 0;
        masks_add(own, 0, first / each, bytes, numbers);
        for (i = 0; i < vault.n_pairs; i++)
            masks_add(vault.pair[i].key, vault.pair[i].subtracted, first / each, bytes, numbers);
        for (i = 0; i < each && first + i < length; i++)
            put_number(&to, numbers[i], bytes);
    }
    link_flush();
    link_send('e', 0, 0);
}

/* X: the sums of a round under masks. Round, flags, what the sum is about, bytes of a number, the
 * largest that may be sent, the fewest rows, and how many neighbors there are. */
static void masks_upload(void)
{
    uint32_t round = (uint32_t)bytes_value(link.payload, 4), bytes = link.payload[37];
    uint64_t most = bytes_value(link.payload + 38, 8);
    if (!same_bytes(vault.told, link.payload + 5, 32) ||
        vault.n_pairs != bytes_value(link.payload + 50, 2) || (bytes != 4 && bytes != 8)) {
        link_refuse("the neighbors of this sum were not all told");
        return;
    }
    if (vault.n_pairs < 2 || vault.n_pairs + 1 < vault.threshold) {
        link_refuse("a sum of so few clients hides nobody");
        return;
    }
    if (vault.sent && !(link.trained.asked && link.trained.number == round &&
                        vault.round == round)) {
        link_refuse("the sums changed since they left under these masks");
        return;
    }
    if (!link_trained(round, link.payload[4]))
        return;
    if (sums.rows < bytes_value(link.payload + 46, 4))
        link_refuse("there are fewer rows than a client sends; collect more");
    else if (!masks_within(most))
        link_refuse("a sum is too large for the ring; take fewer rows");
    else {
        vault.sent = 1;
        vault.round = round;
        masks_send(bytes);
    }
}

#if DEVICE_SERVERS == 2
static void single_upload(void);
#endif

static uint32_t masks_fits(uint8_t type, uint32_t length)
{
    switch (type) {
    case 'K':
        return length >= 8;
    case 'B':
        return length > 71;
    case 'O':
        return length > 69 + BOX_BYTES;
    case 'N':
        return length == 68;
    case 'X':
        return length == 52;
    case 'W':
        return DEVICE_SERVERS == 2 && length > 46;
    default:
        return 0;
    }
}

static void masks_act(void)
{
#if DEVICE_SERVERS == 2
    /* Pairwise masks would be a second way out, with a floor that the gateway tells. */
    if (link.type == 'W')
        single_upload();
    else
        link_refuse("this device masks for two servers");
    (void)masks_keys, (void)masks_deal, (void)masks_open, (void)masks_neighbor;
    (void)masks_upload, (void)masks_send;
#else
    if (link.type == 'K')
        masks_keys();
    else if (!vault.open)
        link_refuse("no session was opened");
    else if (link.type == 'B')
        masks_deal();
    else if (link.type == 'O')
        masks_open();
    else if (link.type == 'N')
        masks_neighbor();
    else
        masks_upload();
#endif
}
