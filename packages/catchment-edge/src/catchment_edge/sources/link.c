/* What a device says to its gateway: frames in, frames out.
 *
 *     CA 7C | type u8 | length u32 | payload | CRC-32 over type, length and payload u32
 *
 * A frame is acted on when its CRC is right; one that is not understood is answered with 'n' and a
 * reason, and changes nothing but this: a readout that arrives damaged leaves none, until it is
 * sent again. The gateway never sees the sensor's line. */

enum { LINK_FIRST = 0xca, LINK_SECOND = 0x7c, LINK_VERSION = 1 };
enum { SENSOR_SAMPLE = 1, SENSOR_RECORDING_ENDS, SENSOR_STRETCH_ENDS };
enum { HAS_CLASSES = 1, PER_STEP = 2, NEEDS_SCALE = 4, HOLDS_READOUT = 8, MASKS_SUMS = 16 };

#define LINK_READOUT (8 * (DEVICE_FEATURES + 1) * DEVICE_OUTPUTS)
#define LINK_SCALE (16 * DEVICE_CHANNELS)
#define LINK_LEAST (DEVICE_MASKS ? 512 : 8)
#define LINK_SHORT (LINK_SCALE > LINK_LEAST ? LINK_SCALE : LINK_LEAST)
#define LINK_LONGEST (LINK_READOUT > LINK_SHORT ? LINK_READOUT : LINK_SHORT)

struct link_round {
    uint32_t number;
    uint8_t flags, asked; /* asked: answered, and not acknowledged since */
    const char *refused;
};

static struct {
    uint8_t type;
    uint32_t length;
    uint8_t payload[LINK_SHORT];
    uint8_t piece[DEVICE_PIECE];
    uint32_t filled;
    struct link_round trained;
#if DEVICE_SCALE == 2
    struct link_round measured;
#endif
    int predicting;
    struct target last; /* of the sensor's last sample */
} link;

/* Frames out */

static void link_send(uint8_t type, const uint8_t *payload, uint32_t length)
{
    uint8_t edge[7];
    uint32_t crc;
    edge[0] = LINK_FIRST;
    edge[1] = LINK_SECOND;
    edge[2] = type;
    bytes_of(length, 4, edge + 3);
    crc = crc32_added(crc32_added(0, edge + 2, 5), payload, length);
    port_write(edge, 7);
    if (length)
        port_write(payload, length);
    bytes_of(crc, 4, edge);
    port_write(edge, 4);
}

static void link_refuse(const char *why)
{
    uint32_t length = 0;
    while (why[length])
        length++;
    link_send('n', (const uint8_t *)why, length);
}

static void link_flush(void)
{
    if (link.filled)
        link_send('u', link.piece, link.filled);
    link.filled = 0;
}

/* Has the form of a sink's function. */
static void link_add(void *of, const uint8_t *bytes, uint32_t count)
{
    (void)of;
    while (count--) {
        link.piece[link.filled++] = *bytes++;
        if (link.filled == DEVICE_PIECE)
            link_flush();
    }
}

static void link_message(const struct wire_message *message)
{
    struct sink to = {link_add, 0};
    put_message(&to, message);
    link_flush();
    link_send('e', 0, 0);
}

/* The sensor */

static int sensor_bytes(uint8_t *bytes, uint32_t count)
{
    while (count--)
        if (!sensor_read(bytes++))
            return 0;
    return 1;
}

static int sensor_double(double *value)
{
    uint8_t bytes[8];
    if (!sensor_bytes(bytes, 8))
        return 0;
    *value = double_of_bits(bytes_value(bytes, 8));
    return 1;
}

/* NaN is neither. */
static int too_large(double value, double bound)
{
    return value >= bound || value <= -bound;
}

/* What comes with a sample; where inputs ahead are predicted it is the sample itself. */
static int sensor_target(const double *sample, struct target *target)
{
#if DEVICE_CLASSES
    uint8_t bytes[4];
    uint32_t label;
    (void)sample;
    if (!sensor_bytes(bytes, 4))
        return 0;
    label = (uint32_t)bytes_value(bytes, 4);
    target->known = label < DEVICE_OUTPUTS;
    target->label = target->known ? (int32_t)label : -1;
    if (!target->known && label != 0xffffffffu)
        feed_refuse("a label is not the number of a class");
#else
    uint32_t k;
    target->known = 1;
    for (k = 0; k < DEVICE_OUTPUTS; k++) {
#if DEVICE_HORIZON
        target->number[k] = sample[k];
#else
        (void)sample;
        if (!sensor_double(target->number + k))
            return 0;
#endif
        if (too_large(target->number[k], 1099511627776.0)) {
            feed_refuse("a target is 2^40 or more");
            target->known = 0;
        }
        if (target->number[k] != target->number[k])
            target->known = 0;
    }
#endif
    return 1;
}

/* Reads the sensor to the end of a stretch; one that was cut short is refused. */
static void sensor_stretch(void (*on_sample)(const double *, const struct target *),
                           void (*on_end)(const struct target *))
{
    double sample[DEVICE_CHANNELS];
    uint8_t kind;
    uint32_t i;
    feed.refused = 0;
    while (sensor_read(&kind) && kind != SENSOR_STRETCH_ENDS) {
        if (kind == SENSOR_RECORDING_ENDS) {
            on_end(&link.last);
            continue;
        }
        if (kind != SENSOR_SAMPLE) {
            feed_refuse("the sensor's line has something else than samples");
            continue;
        }
        for (i = 0; i < DEVICE_CHANNELS; i++)
            if (!sensor_double(sample + i))
                break;
        if (i < DEVICE_CHANNELS || !sensor_target(sample, &link.last)) {
            feed_refuse("the sensor's line ends within a sample");
            return;
        }
        for (i = 0; i < DEVICE_CHANNELS; i++)
            if (too_large(sample[i], 1.7976931348623157e308)) {
                feed_refuse("a sample is infinite");
                sample[i] = double_of_bits((uint64_t)0x7ff8 << 48);
            }
        on_sample(sample, &link.last);
    }
}

/* Rows */

static void link_predicted(void)
{
    uint8_t payload[8 + 4 * DEVICE_OUTPUTS];
    float scores[DEVICE_OUTPUTS];
    uint32_t k;
    readout_scores(map.row, scores);
    bytes_of(feed.recording, 4, payload);
    bytes_of(feed.row++, 4, payload + 4);
    for (k = 0; k < DEVICE_OUTPUTS; k++)
        bytes_of(bits_of_float(scores[k]), 4, payload + 8 + 4 * k);
    link_send('p', payload, sizeof payload);
}

static void feed_row(const struct target *target)
{
    if (link.predicting)
        link_predicted();
    else if (target->known && !sums_add(map.row, target))
        feed_refuse("the sums hold as many rows as they have room for; export with more rows");
}

#if DEVICE_SCALE == 2
static void moments_sample(const double *sample, const struct target *target)
{
    uint32_t i;
    (void)target;
    for (i = 0; i < DEVICE_CHANNELS; i++) {
        if (too_large(sample[i], 1099511627776.0)) {
            feed_refuse("a sample is 2^40 or more; change the unit of its channel");
            return;
        }
        if (DEVICE_GAPS != 0 && sample[i] != sample[i]) {
            if (DEVICE_GAPS == 1)
                feed_refuse("a sample lacks a value, and the plan refuses gaps");
            return;
        }
    }
    moments_add(sample);
}

static void moments_end(const struct target *target)
{
    (void)target;
    moments_recording();
}
#endif

/* Commands */

static void link_hello(void)
{
    uint8_t payload[75];
    uint32_t i;
    payload[0] = LINK_VERSION;
    payload[1] = DEVICE_NUMBER;
    bytes_of(DEVICE_CHANNELS, 2, payload + 2);
    bytes_of(DEVICE_OUTPUTS, 2, payload + 4);
    bytes_of(DEVICE_FEATURES, 4, payload + 6);
    payload[10] = (uint8_t)((DEVICE_CLASSES ? HAS_CLASSES : 0) | (DEVICE_PER_STEP ? PER_STEP : 0) |
                            (DEVICE_SCALE == 2 ? NEEDS_SCALE : 0) |
                            (readout.held ? HOLDS_READOUT : 0) | (DEVICE_MASKS ? MASKS_SUMS : 0));
    for (i = 0; i < 32; i++) {
        payload[11 + i] = FINGERPRINT[i];
        payload[43 + i] = COURSE[i];
    }
    link_send('h', payload, sizeof payload);
}

#if DEVICE_SCALE == 2
static double link_double(uint32_t index)
{
    return double_of_bits(bytes_value(link.payload + 8 * index, 8));
}

static int link_scale_possible(void)
{
    uint32_t i;
    for (i = 0; i < DEVICE_CHANNELS; i++) {
        double mean = link_double(i), scale = link_double(DEVICE_CHANNELS + i);
        if (!(mean >= -1e12 && mean <= 1e12 && scale >= 1e-12 && scale <= 1e12))
            return 0;
    }
    return 1;
}

/* Sums of inputs of another scale mean nothing in this one: they start from zero. */
static void link_scale(void)
{
    uint32_t i;
    int other = !feed.scaled;
    if (!link_scale_possible()) {
        link_refuse("means must be within 1e12 of zero and scales from 1e-12 to 1e12");
        return;
    }
    for (i = 0; i < DEVICE_CHANNELS; i++) {
        double mean = link_double(i), scale = link_double(DEVICE_CHANNELS + i);
        other |= feed.mean[i] != mean || feed.scale[i] != scale;
        feed.mean[i] = mean;
        feed.scale[i] = scale;
    }
    if (other) {
        sums_clear();
        feed_recording();
        readout.held = 0;
        link.trained.asked = 0;
    }
    feed.scaled = 1;
    link.measured.asked = 0;
    moments_clear();
    link_send('k', 0, 0);
}

static void link_measure(void)
{
    uint32_t round = (uint32_t)bytes_value(link.payload, 4);
    if (!(link.measured.asked && link.measured.number == round)) {
        sensor_stretch(moments_sample, moments_end);
        link.measured.refused = feed.refused;
        if (!feed.refused && !moments_any())
            link.measured.refused = "no sample has a value; there is nothing to scale by";
        link.measured.asked = 1;
        link.measured.number = round;
    }
    if (link.measured.refused)
        link_refuse(link.measured.refused);
    else
        link_message(&MOMENTS_MESSAGE);
}
#else
/* A scale that the plan has already is the one that may be told. */
static void link_scale(void)
{
#if DEVICE_SCALE == 1
    uint32_t i;
    for (i = 0; i < DEVICE_CHANNELS; i++)
        if (bytes_value(link.payload + 8 * i, 8) != bits_of_double(SCALE_MEAN[i]) ||
            bytes_value(link.payload + 8 * (DEVICE_CHANNELS + i), 8) !=
                bits_of_double(SCALE_DIVISOR[i])) {
            link_refuse("the plan has another scale, which is part of the device");
            return;
        }
    link_send('k', 0, 0);
#else
    link_refuse("the plan has no scale");
#endif
}

static void link_measure(void)
{
    link_refuse("the plan has no scale that is to be fitted");
}
#endif

static int link_ready(void)
{
#if DEVICE_SCALE == 2
    if (!feed.scaled) {
        link_refuse("the plan has a scale, which was not told yet");
        return 0;
    }
#endif
    return 1;
}

/* Adds the stretch of a round to the sums, once; 0 if that was refused. */
static int link_trained(uint32_t round, uint8_t flags)
{
    struct link_round *trained = &link.trained;
    if (!link_ready())
        return 0;
    if (!(trained->asked && trained->number == round)) {
#if DEVICE_HORIZON
        sensor_stretch(feed_ahead, feed_end);
#else
        sensor_stretch(feed_sample, feed_end);
#endif
        trained->refused = feed.refused;
        trained->asked = 1;
        trained->number = round;
        trained->flags = flags;
    }
    if (trained->refused)
        link_refuse(trained->refused);
    return !trained->refused;
}

#if DEVICE_MASKS
static void masks_act(void);
static uint32_t masks_fits(uint8_t type, uint32_t length);

static void link_train(void)
{
    (void)link_message; /* which moments alone need then */
    link_refuse("this device sends its sums under the masks of secure aggregation only");
}
#else
static void link_train(void)
{
    if (link_trained((uint32_t)bytes_value(link.payload, 4), link.payload[4]))
        link_message(&SUMS_MESSAGE);
}
#endif

static void link_acknowledged(void)
{
    uint32_t round = (uint32_t)bytes_value(link.payload, 4);
    struct link_round *trained = &link.trained;
    if (trained->asked && trained->number == round) {
        if ((trained->flags & 1) && !trained->refused)
            sums_clear();
        trained->asked = 0;
    }
    link_send('k', 0, 0);
}

static void link_predict(void)
{
    if (!link_ready())
        return;
    if (!readout.held) {
        link_refuse("there is no readout yet");
        return;
    }
#if DEVICE_HORIZON
    feed_rest();
#endif
    link.predicting = 1;
    feed.recording = feed.row = 0;
    sensor_stretch(feed_sample, feed_end);
    link.predicting = 0;
    if (feed.refused)
        link_refuse(feed.refused);
    else
        link_send('e', 0, 0);
}

/* Frames in */

static uint32_t link_expected(uint8_t type)
{
    switch (type) {
    case 'S':
        return LINK_SCALE;
    case 'M':
    case 'A':
        return 4;
    case 'T':
        return 5;
    case 'R':
        return LINK_READOUT;
    default:
        return 0;
    }
}

/* Whether a frame is as long as its type may be. */
static uint32_t link_fits(void)
{
#if DEVICE_MASKS
    if (link.length <= LINK_SHORT && masks_fits(link.type, link.length))
        return 1;
#endif
    return link.length == link_expected(link.type);
}

/* Takes a payload's bytes as they come; a readout goes where it stays, number by number. */
static int link_payload(uint32_t *crc)
{
    uint32_t i, fits = link.length == link_expected(link.type), number = 0;
    uint8_t byte, eight[8];
    if (link.type == 'R' && fits)
        readout_begin();
    for (i = 0; i < link.length; i++) {
        if (!port_read(&byte))
            return 0;
        *crc = crc32_added(*crc, &byte, 1);
        if (link.type == 'R' && fits) {
            eight[i & 7] = byte;
            if ((i & 7) == 7)
                readout_take(number++, double_of_bits(bytes_value(eight, 8)));
        } else if (i < LINK_SHORT) {
            link.payload[i] = byte;
        }
    }
    return 1;
}

static void link_act(void)
{
    switch (link.type) {
    case 'H':
        link_hello();
        return;
    case 'S':
        link_scale();
        return;
    case 'M':
        link_measure();
        return;
    case 'T':
        link_train();
        return;
    case 'A':
        link_acknowledged();
        return;
    case 'R':
        if (readout_end())
            link_send('k', 0, 0);
        else
            link_refuse("the readout has numbers that are not finite or too large");
        return;
    case 'P':
        link_predict();
        return;
#if DEVICE_MASKS
    case 'K':
    case 'B':
    case 'O':
    case 'N':
    case 'X':
    case 'W':
        masks_act();
        return;
#endif
    default:
        link_refuse("no such type of frame");
    }
}

/* Answers one frame; 0 when the link is closed. */
static int link_answer(void)
{
    uint8_t edge[5], byte = 0;
    uint32_t crc, i;
    while (byte != LINK_SECOND) {
        while (byte != LINK_FIRST)
            if (!port_read(&byte))
                return 0;
        if (!port_read(&byte))
            return 0;
    }
    for (i = 0; i < 5; i++)
        if (!port_read(edge + i))
            return 0;
    link.type = edge[0];
    link.length = (uint32_t)bytes_value(edge + 1, 4);
    if (link.length > LINK_LONGEST) {
        link_refuse("the frame is longer than any that there is");
        return 1;
    }
    crc = crc32_added(0, edge, 5);
    if (!link_payload(&crc))
        return 0;
    for (i = 0; i < 4; i++)
        if (!port_read(edge + i))
            return 0;
    if ((uint32_t)bytes_value(edge, 4) != crc)
        link_refuse("the frame is damaged; send it again");
    else if (!link_fits())
        link_refuse("the frame has another length than its type");
    else
        link_act();
    return 1;
}
