"""Two CUDA kernels for a reservoir on a grid, compiled by torch when they are first wanted.

`leak_into` turns pre-activations into states. `run_sparse` advances a layer of sparse rows over
many steps in one launch: a block holds the extended states [x; u; 1] of some lanes in shared
memory, twice, and reads one copy while it writes the other. Both follow the definition in
`activations` operation by operation; the compiler may contract products into sums, which are
exact, and never reorders.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from catchment.features.echo_state import activations as grid

THREADS = 512
SHARED_BYTES = 200 * 1024  # of a block; data-centre cards since 2020 have more
SMALL_SHARED_BYTES = 48 * 1024  # every card has these

_NAMES = (
    *("ROUND", "R24", "R25", "R26", "R27", "R29", "R30", "R36", "LARGEST", "LOG2E", "LN2"),
    *("FARTHEST", "OVER_PI", "PI", "S0", "S1", "S2", "S3", "S4", "C0", "C1", "C2", "C3", "C4"),
    "LINEAR_BOUND",
)

_SOURCE = """
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

extern "C" __global__ void leak_into(const double* P, double* X, double* S, const double* leak,
                                     const unsigned char* code, int N, int T, int B, int t) {
  long long n = (long long)N * B;
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < n; k += step) {
    int i = (int)(k / B), b = (int)(k % B);
    double x = leaked(leak[i], X[k], activate(code[i], P[k]));
    X[k] = x;
    S[((long long)i * T + t) * B + b] = x;
  }
}

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
      for (long long q = starts[i]; q < starts[i + 1]; q++)
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


def source(digits: int) -> str:
    """Return the kernels for a grid of so many digits, its numbers written in full."""
    numbers = {name: getattr(grid, name) for name in _NAMES}
    numbers |= {"G": grid.rounder(digits), "TOP": 1.0 - 2.0**-digits}
    head = [f"#define {name} ({value.hex()})" for name, value in numbers.items()]
    return "\n".join(head) + _SOURCE


def available() -> bool:
    """Whether this torch can compile kernels for the GPU (2.9 and newer can)."""
    return torch.cuda.is_available() and hasattr(torch.cuda, "_compile_kernel")


@cache
def _kernel(name: str, digits: int, device: int) -> Any:
    with torch.cuda.device(device):
        return torch.cuda._compile_kernel(source(digits), name)


def leak_into(
    P: torch.Tensor,
    X: torch.Tensor,
    S: torch.Tensor,
    leak: torch.Tensor,
    code: torch.Tensor,
    t: int,
    digits: int,
) -> None:
    """Turn P (N, B) into states, in X (N, B) and in step t of S (N, T, B), all contiguous."""
    N, T, B = S.shape
    blocks = min(-(-N * B // 256), 1 << 16)
    with torch.cuda.device(X.device):
        kernel = _kernel("leak_into", digits, X.device.index or 0)
        kernel((blocks, 1, 1), (256, 1, 1), [P, X, S, leak, code, N, T, B, t])


def lanes_of_a_block(n_rows: int, n_lanes: int, shared_bytes: int = SHARED_BYTES) -> int:
    """Return how many lanes a block holds, or 0 if not even two fit.

    >>> lanes_of_a_block(204, 10_000), lanes_of_a_block(1004, 10_000), lanes_of_a_block(10**5, 9)
    (32, 8, 0)
    """
    for lanes in (32, 16, 8, 4, 2):
        crowded = 2 * n_rows * lanes * 8 > shared_bytes
        idle = lanes > 4 and n_lanes < 128 * lanes  # fewer blocks than a large card has processors
        if not (crowded or idle):
            return lanes
    return 0


def run_sparse(
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    leak: torch.Tensor,
    code: torch.Tensor,
    U: torch.Tensor,
    X: torch.Tensor,
    S: torch.Tensor,
    digits: int,
    lanes: int,
) -> None:
    """Advance X (N, B) over U (I, T, B), into S (N, T, B); `rows` are starts, columns, values."""
    N, T, B = S.shape
    I = len(U)
    shared = 2 * (N + I + 1) * lanes * 8
    with torch.cuda.device(X.device):
        kernel = _kernel("run_sparse", digits, X.device.index or 0)
        if shared >= SMALL_SHARED_BYTES:
            kernel.set_shared_memory_config(shared)
        arguments = [*rows, leak, code, U, X, S, N, I, T, B, lanes]
        kernel((-(-B // lanes), 1, 1), (THREADS, 1, 1), arguments, shared)
