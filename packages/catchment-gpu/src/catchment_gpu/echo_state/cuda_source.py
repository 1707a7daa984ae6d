"""The CUDA source of a reservoir's steps; `cuda_kernels` compiles and launches it.

On a grid it follows the definition in `activations` operation by operation: the compiler may
contract products into sums, which are exact, and never reorders. Without a grid (PLAIN) the
activations are those of CUDA's library.
"""

from __future__ import annotations

from catchment.features.echo_state import kernels as grid

_NAMES = (
    *("ROUND", "R24", "R25", "R26", "R27", "R29", "R30", "R36", "LARGEST", "LOG2E", "LN2"),
    *("FARTHEST", "OVER_PI", "PI", "S0", "S1", "S2", "S3", "S4", "C0", "C1", "C2", "C3", "C4"),
    "LINEAR_BOUND",
)

_ON_GRID = """
__device__ __forceinline__ double growth(double y) {
  double shifted = y * LOG2E + ROUND;
  double k = shifted - ROUND;
  double r = y - k * LN2;
  double p = C4 * r + (C3 + R27) - R27;
  p = p * r + (C2 + R27) - R27;
  p = p * r + (C1 + R27) - R27;
  p = p * r + (C0 + R27) - R27;
  p = p * r + R27 - R27;
  p = p * r + (r + R27) - R27;
  unsigned long long bits = (unsigned long long)__double_as_longlong(shifted) << 52;
  double scale = __longlong_as_double((long long)(bits + 0x3FF0000000000000ULL));
  return scale * p + (scale - 1.0);
}

__device__ __forceinline__ double grid_sin(double x) {
  double a = fmin(fabs(x), FARTHEST);
  double shifted = (a + R26 - R26) * OVER_PI + ROUND;
  double k = shifted - ROUND;
  double r = (a - k * PI) + R25 - R25;
  double z = r * r + R24 - R24;
  double p = S4 * z + (S3 + R36) - R36;
  p = p * z + (S2 + R30) - R30;
  p = p * z + (S1 + R30) - R30;
  p = p * z + (S0 + R29) - R29;
  p = p * z + R27 - R27;
  p = p * r + (r + R27) - R27;
  p = fmin(fmax(p + G - G, -TOP), TOP);
  p = (__double_as_longlong(shifted) & 1) ? -p : p;
  return x < 0.0 ? -p : p;
}

__device__ __forceinline__ double activate(int code, double x) {
  if (code == 0) {
    double e = growth(fmin(fabs(x + x) + R26 - R26, LARGEST));
    return copysign(fmin(e / (e + 2.0) + G - G, TOP), x);
  }
  if (code == 1) {
    double e = growth(fmin(fabs(x) + R26 - R26, LARGEST));
    double upper = fmin((e + 1.0) / (e + 2.0) + G - G, TOP);
    return x >= 0.0 ? upper : 1.0 - upper;
  }
  if (code == 3) return grid_sin(x);
  double linear = fmin(fmax(x + G - G, -LINEAR_BOUND), LINEAR_BOUND);
  return code == 2 ? fmax(linear, 0.0) : linear;
}

__device__ __forceinline__ double leaked(double a, double x, double y) {
  return (1.0 - a) * x + a * y + G - G;
}
"""

_PLAIN = """
__device__ __forceinline__ double activate(int code, double x) {
  if (code == 0) return tanh(x);
  if (code == 1) return 1.0 / (1.0 + exp(-x));
  if (code == 2) return fmax(x, 0.0);
  return code == 3 ? sin(x) : x;
}

__device__ __forceinline__ double leaked(double a, double x, double y) {
  return (1.0 - a) * x + a * y;
}
"""

# X, the states before a step, and S, pre-activations without bias and then the states after it, are
# (N, B) with rows ldx and lds numbers apart.
_STEP = """
extern "C" __global__ void step_into(const double* X, double* S, const double* bias,
                                     const double* leak, const unsigned char* code, int N, int B,
                                     int ldx, int lds) {
  int b = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (b >= B || i >= N) return;
  long long at = (long long)i * lds + b;
  double y = activate(code[i], S[at] + bias[i]);
  S[at] = leaked(leak[i], X[(long long)i * ldx + b], y);
}
"""

_SPARSE = """
extern "C" __global__ void run_sparse(const long long* starts, const int* columns,
                                      const double* values, const double* leak,
                                      const unsigned char* code, const double* U, double* X,
                                      double* S, int N, int I, int T, int B, int L) {
  extern __shared__ double memory[];
  int lane = threadIdx.x % L, group = threadIdx.x / L, groups = blockDim.x / L;
  int b = blockIdx.x * L + lane, size = (N + I + 1) * L;
  bool here = b < B;
  double *now = memory, *next = memory + size;
  for (int i = group; i < N; i += groups) now[i * L + lane] = here ? X[(long long)i * B + b] : 0.0;
  for (int j = group; j < I; j += groups)
    now[(N + j) * L + lane] = here ? U[(long long)j * T * B + b] : 0.0;
  if (group == 0) now[(N + I) * L + lane] = next[(N + I) * L + lane] = 1.0;
  __syncthreads();
  for (int t = 0; t < T; t++) {
    for (int i = group; i < N; i += groups) {
      double p = 0.0;
      int end = (int)starts[i + 1];
      for (int q = (int)starts[i]; q < end; q++)
        p += values[q] * now[columns[q] * L + lane];
      double x = leaked(leak[i], now[i * L + lane], activate(code[i], p));
      next[i * L + lane] = x;
      if (here) S[((long long)i * T + t) * B + b] = x;
    }
    if (t + 1 < T)
      for (int j = group; j < I; j += groups)
        next[(N + j) * L + lane] = here ? U[((long long)j * T + t + 1) * B + b] : 0.0;
    __syncthreads();
    double* other = now;
    now = next;
    next = other;
  }
  for (int i = group; i < N; i += groups)
    if (here) X[(long long)i * B + b] = now[i * L + lane];
}
"""


def source(digits: int | None) -> str:
    """Return the kernels for a grid of so many digits, or for none, numbers written in full."""
    if digits is None:
        return _PLAIN + _STEP + _SPARSE
    numbers = {name: getattr(grid, name) for name in _NAMES}
    numbers |= {"G": grid.rounder(digits), "TOP": 1.0 - 2.0**-digits}
    head = [f"#define {name} ({value.hex()})" for name, value in numbers.items()]
    return "\n".join(head) + _ON_GRID + _STEP + _SPARSE
