__device__ __forceinline__ double cut(double x, double limit) {
  return fmin(fmax(x, -limit), limit);
}

// Do something with each number of a state that a thread holds, and with its place there.
#define FOR_EACH_HELD(ACTION)                        \
  for (int r = 0; r < REPEAT; r++) {                 \
    int j = unit + r * apart;                        \
    if (modes && j < k) {                            \
      ACTION(j, x[r]);                               \
      ACTION(k + j, y[r]);                           \
    } else if (!modes && j < J) ACTION(N + j, x[r]); \
  }
#define READ(row, value) value = state[(long long)(row) * B + lane]
#define WRITE(row, value) state[(long long)(row) * B + lane] = value
#define WRITE_AFTER(row, value) out[(long long)(row) * B + lane] = value
#define COMPARE_NEXT(row, value) same = same && state[(long long)(row) * B + lane + 1] == value

struct Moments {
  double reference, first, second;
  __device__ __forceinline__ void add(double z, bool begins) {
    if (begins) { reference = z; first = 0.0; second = 0.0; }
    double d = __dsub_rn(z, reference);
    first = __dadd_rn(first, d);
    second = __dadd_rn(second, __dmul_rn(d, d));
  }
  __device__ __forceinline__ void write(double* out, long long place, long long apart) {
    out[place] = reference;
    out[apart + place] = first;
    out[2 * apart + place] = second;
  }
};

#if TILE > 0
#define KEEP_ROW(tile, row, value) tile[(me % 32) * (TILE + 1) + t % TILE] = (value)
// Write what the threads of a warp kept of some steps. Unit u has row `high + u` if it is below
// `split`, else u - split, and there are `last` units.
__device__ __forceinline__ void write_tile(const double* tile, double* out, int first, int split,
                                           int last, int high, int filled, int width) {
  __syncwarp();
  for (int s = threadIdx.x % 32; s < 32 * TILE; s += 32) {
    int u = first + s / TILE, c = s % TILE;
    long long row = u < split ? high + u : u - split;
    if (u < last && c < filled) out[row * width + c] = tile[s / TILE * (TILE + 1) + c];
  }
  __syncwarp();
}
#else
#define KEEP_ROW(tile, row, value) mine[(long long)(row) * width + t] = (value)
#endif

extern "C" __global__ void __launch_bounds__(THREADS) run_lanes(
    const double* __restrict__ u, const long long* __restrict__ begin,
    const long long* __restrict__ length, const long long* __restrict__ column,
    const double* __restrict__ W, const double* __restrict__ eigenvalues,
    const int* __restrict__ factors, const int* __restrict__ mixed,
    const double* __restrict__ M, const double* __restrict__ leaks, double* state, double* out,
    int I, int k, int P, int Q, int B, int width, int stage, int mode_threads) {
  extern __shared__ double memory[];
  int N = 2 * k, J = P + Q, lane = blockIdx.x, me = threadIdx.x;
#if KEEP == 3
  int stop = (int)column[gridDim.x + lane];
  lane = (int)column[lane];
#endif
  double *ring = memory, *staged = ring + 2 * N, *weights = staged + stage * I;
#if TILE > 0
  // One of a warp, and behind them a second one of those with modes, for the imaginary parts.
  int size = 32 * (TILE + 1);
  double *tile = weights + I * k + me / 32 * size, *second = tile + blockDim.x / 32 * size;
#endif
  bool modes = me < mode_threads;
  int unit = modes ? me : me - mode_threads;
  int apart = modes ? mode_threads : blockDim.x - mode_threads;
  double x[REPEAT], y[REPEAT], c0[REPEAT], c1[REPEAT], c2[REPEAT], c3[REPEAT], leak[REPEAT];
  int i0[REPEAT], i1[REPEAT], i2[REPEAT];
#if KEEP == 2
  Moments mx[REPEAT], my[REPEAT];
#endif
  for (int s = me; s < I * k; s += blockDim.x) weights[s] = W[s];
#pragma unroll
  for (int r = 0; r < REPEAT; r++) {
    int j = unit + r * apart;
    x[r] = y[r] = c0[r] = c1[r] = c2[r] = c3[r] = leak[r] = 0.0;
    i0[r] = i1[r] = i2[r] = 0;
    if (modes && j < k) {
      c0[r] = eigenvalues[j];
      c1[r] = eigenvalues[k + j];
    } else if (!modes && j < J) {
      leak[r] = leaks[j];
      if (j < P) {
        i0[r] = factors[j];
        i1[r] = factors[P + j];
      } else {
        int m = j - P;
        i0[r] = mixed[m];
        i1[r] = mixed[Q + m];
        i2[r] = mixed[2 * Q + m];
        c0[r] = M[m];
        c1[r] = M[Q + m];
        c2[r] = M[2 * Q + m];
        c3[r] = M[3 * Q + m];
      }
    }
  }
#pragma unroll
  FOR_EACH_HELD(READ)
#if KEEP == 3
  while (true) {
#endif
  long long first = begin[lane];
  int T = (int)length[lane];
#if KEEP == 1
  double* mine = out + column[lane];
#endif
  for (int t0 = 0; t0 < T; t0 += stage) {
    int here = min(stage, T - t0);
    __syncthreads();
    for (int s = me; s < here * I; s += blockDim.x) staged[s] = u[(first + t0) * I + s];
    __syncthreads();
    for (int s = 0; s < here; s++) {
      int t = t0 + s;
      const double* now = staged + s * I;
      double* v = ring + (t & 1) * N;
      if (modes) {
#pragma unroll
        for (int r = 0; r < REPEAT; r++) {
          int i = unit + r * apart;
          if (i < k) {
            double drive = 0.0;
            for (int c = 0; c < I; c++) drive += weights[c * k + i] * now[c];
            double re = c0[r] * x[r] - c1[r] * y[r] + cut(drive, LIMIT) + R_STATE - R_STATE;
            double im = c1[r] * x[r] + c0[r] * y[r] + R_STATE - R_STATE;
            x[r] = cut(re, LIMIT);
            y[r] = cut(im, LIMIT);
            v[i] = x[r] + R_FACTOR - R_FACTOR;
            v[k + i] = y[r] + R_FACTOR - R_FACTOR;
#if KEEP == 1
            KEEP_ROW(tile, I + i, x[r]);
            KEEP_ROW(second, I + k + i, y[r]);
#elif KEEP == 2
            mx[r].add(x[r], t == 0);
            my[r].add(y[r], t == 0);
#endif
          }
        }
      }
      __syncthreads();
      if (!modes) {
#pragma unroll
        for (int r = 0; r < REPEAT; r++) {
          int j = unit + r * apart;
          if (j < J) {
            double p;
            if (j < P) {
              double other = i1[r] < N ? v[i1[r]] : now[i1[r] - N];
              p = v[i0[r]] * other + R_STATE - R_STATE;
            } else {
              double z = c0[r] * v[i0[r]] + c1[r] * v[i1[r]] + c2[r] * v[i2[r]] + c3[r];
              z = cut(z, 3.0) + R_BEND - R_BEND;
              double w = z * z + R_SQUARE - R_SQUARE;
              p = cut(z * (27.0 + w) / (27.0 + 9.0 * w) + R_BENT - R_BENT, TOP);
            }
            x[r] = (1.0 - leak[r]) * x[r] + leak[r] * p + R_STATE - R_STATE;
#if KEEP == 1
            KEEP_ROW(tile, I + N + j, x[r]);
#elif KEEP == 2
            mx[r].add(x[r], t == 0);
#endif
          } else if (j < J + I) {
#if KEEP == 1
            KEEP_ROW(tile, j - J, now[j - J]);
#elif KEEP == 2
            mx[r].add(now[j - J], t == 0);
#endif
          }
        }
      }
#if TILE > 0
      int filled = t % TILE + 1, base = unit - me % 32;
      if (filled == TILE || t + 1 == T) {
        double* there = mine + t + 1 - filled;
        write_tile(tile, there, base, modes ? k : J, modes ? k : J + I, modes ? I : I + N, filled,
                   width);
        if (modes) write_tile(second, there, base, k, k, I + k, filled, width);
      }
#endif
    }
  }
#if KEEP == 3
#pragma unroll
    FOR_EACH_HELD(WRITE_AFTER)
    if (lane + 1 >= stop) return;
    bool same = true;
#pragma unroll
    FOR_EACH_HELD(COMPARE_NEXT)
    if (__syncthreads_and(same)) return;
    lane++;
#pragma unroll
    FOR_EACH_HELD(WRITE)
  }
#else
#pragma unroll
  FOR_EACH_HELD(WRITE)
#endif
#if KEEP == 2
#pragma unroll
  for (int r = 0; r < REPEAT; r++) {
    int j = unit + r * apart;
    long long all = (long long)(I + N + J) * B;
    if (modes && j < k) {
      mx[r].write(out, (long long)(I + j) * B + lane, all);
      my[r].write(out, (long long)(I + k + j) * B + lane, all);
    } else if (!modes && j < J + I) {
      mx[r].write(out, (long long)(j < J ? I + N + j : j - J) * B + lane, all);
    }
  }
#endif
}
