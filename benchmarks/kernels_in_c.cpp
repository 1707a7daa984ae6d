// Three kernels of the library as C++ behind nanobind, for benchmarks/kernels_in_c.py: what would
// take the place of numba. The arithmetic is that of the kernels, so that results are the same bits.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace nb = nanobind;
using Doubles = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using Starts = nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<const uint32_t, nb::c_contig, nb::device::cpu>;
using Whole = nb::ndarray<int64_t, nb::c_contig, nb::device::cpu>;

#ifdef __AVX512F__
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef double vector __attribute__((vector_size(8 * LANES), aligned(8)));
typedef int64_t whole_vector __attribute__((vector_size(8 * LANES), aligned(8)));

constexpr double ROUND = 6755399441055744.0;
constexpr double R26 = ROUND / (1 << 26), R27 = ROUND / (1 << 27);

// |tanh| in fixed point, as catchment.features.echo_state.kernels.size_of_tanh.
static inline double size_of_tanh(double x, double G, double top)
{
    double y = std::fabs(x + x) + R26 - R26;
    y = y < 20.0 ? y : 20.0;
    const double shifted = y * (3025551.0 / (1 << 21)) + ROUND, k = shifted - ROUND;
    const double r = y - k * (46516320.0 / (1 << 26)), unit = 1.0 / (1 << 27);
    double p = 187240 * unit * r + (1123252 * unit + R27) - R27;
    p = p * r + (5592344 * unit + R27) - R27;
    p = p * r + (22369423 * unit + R27) - R27;
    p = p * r + (67108865 * unit + R27) - R27;
    p = p * r + R27 - R27;
    p = p * r + (r + R27) - R27;
    uint64_t bits;
    std::memcpy(&bits, &shifted, 8);
    bits = (bits << 52) + 0x3FF0000000000000u;
    double scale;
    std::memcpy(&scale, &bits, 8);
    const double e = scale * p + (scale - 1.0), found = e / (e + 2.0) + G - G;
    return found < top ? found : top;
}

static inline void advance(double leak, double G, double top, const double *p, double *x, int64_t n)
{
    const double keep = 1.0 - leak;
    for (int64_t b = 0; b < n; b++)
        x[b] = keep * x[b] + std::copysign(leak, p[b]) * size_of_tanh(p[b], G, top) + G - G;
}

template <int B>
static void rows(const int64_t *starts, const uint32_t *columns, const double *values, int64_t N,
                 const double *X, double *P)
{
    constexpr int n = B / LANES;
    for (int64_t i = 0; i < N; i++) {
        vector sums[n] = {};
        for (int64_t q = starts[i]; q < starts[i + 1]; q++) {
            const double *base = X + (int64_t)columns[q] * B;
            for (int k = 0; k < n; k++)
                sums[k] += values[q] * *(const vector *)(base + k * LANES);
        }
        for (int k = 0; k < n; k++)
            *(vector *)(P + i * B + k * LANES) = sums[k];
    }
}

static void lockstep(Starts starts, Columns columns, Doubles values, double leak, Doubles U,
                     Doubles X, Doubles P, Doubles S, double G, double top)
{
    const int64_t N = P.shape(0), B = P.shape(1), I = U.shape(0), T = U.shape(1), apart = S.shape(1);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t j = 0; j < I; j++)
            std::memcpy(X.data() + (N + j) * B, U.data() + (j * T + t) * B, 8 * B);
        if (B == 16)
            rows<16>(starts.data(), columns.data(), values.data(), N, X.data(), P.data());
        else
            rows<8>(starts.data(), columns.data(), values.data(), N, X.data(), P.data());
        advance(leak, G, top, P.data(), X.data(), N * B);
        for (int64_t i = 0; i < N; i++)
            std::memcpy(S.data() + (i * apart + t) * B, X.data() + i * B, 8 * B);
    }
}

static double dot(const double *row, const double *x, int64_t n)
{
    vector sums[4] = {};
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        for (int k = 0; k < 4; k++)
            sums[k] += *(const vector *)(row + j + k * LANES) * *(const vector *)(x + j + k * LANES);
    const vector four = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double total = 0;
    for (int k = 0; k < LANES; k++)
        total += four[k];
    for (; j < n; j++)
        total += row[j] * x[j];
    return total;
}

static void serial_dense(Doubles W, double leak, Doubles U, Doubles X, Doubles P, Doubles S,
                         double G, double top)
{
    const int64_t N = P.shape(1), n = X.shape(1), T = U.shape(0), I = n - N - 1;
    for (int64_t t = 0; t < T; t++) {
        std::memcpy(X.data() + N, U.data() + t * I, 8 * I);
        for (int64_t i = 0; i < N; i++)
            P.data()[i] = dot(W.data() + i * n, X.data(), n);
        advance(leak, G, top, P.data(), X.data(), N);
        std::memcpy(S.data() + t * N, X.data(), 8 * N);
    }
}

// The product of laid out panels, as catchment.readout.exact_kernels.add_panels in one piece.
template <int VECTORS>
static void tile(const double *a, const double *b, int64_t count, int64_t *to, int64_t apart)
{
    vector sums[LANES][VECTORS] = {};
    for (int64_t j = 0; j < count; j++, a += 3 * LANES, b += 3 * LANES)
        for (int r = 0; r < LANES; r++)
            for (int q = 0; q < VECTORS; q++)
                sums[r][q] += a[r] * *(const vector *)(b + q * LANES);
    for (int r = 0; r < LANES; r++)
        for (int q = 0; q < VECTORS; q++) {
            whole_vector *place = (whole_vector *)(to + r * apart + q * LANES);
            *place += __builtin_convertvector(sums[r][q], whole_vector);
        }
}

static void add_panels(Doubles packed, int64_t count, Whole total, int64_t height, int64_t n)
{
    constexpr int WIDTH = 3 * LANES;
    for (int64_t b = 0; b < height; b += WIDTH) {
        const int64_t end = b + WIDTH < n ? b + WIDTH : n;
        for (int64_t i = 0; i < end; i += LANES) {
            const int64_t skip = i > b ? (i - b) / LANES : 0;
            const int64_t vectors = (end - b + LANES - 1) / LANES - skip;
            const double *left = packed.data() + i / WIDTH * count * WIDTH + i % WIDTH;
            const double *right = packed.data() + b * count + skip * LANES;
            int64_t *to = total.data() + i * height + b + skip * LANES;
            if (vectors == 3)
                tile<3>(left, right, count, to, height);
            else if (vectors == 2)
                tile<2>(left, right, count, to, height);
            else
                tile<1>(left, right, count, to, height);
        }
    }
}

NB_MODULE(kernels_in_c, module)
{
    module.def("lockstep", &lockstep, nb::call_guard<nb::gil_scoped_release>());
    module.def("serial_dense", &serial_dense, nb::call_guard<nb::gil_scoped_release>());
    module.def("add_panels", &add_panels, nb::call_guard<nb::gil_scoped_release>());
    module.attr("LANES") = LANES;
}
