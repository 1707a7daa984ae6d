// X, the states before a step, and S, pre-activations without bias and then the states after it, are
// (N, B) with rows ldx and lds numbers apart.
extern "C" __global__ void step_into(const double* X, double* S, const double* bias,
                                     const double* leak, const unsigned char* code, int N, int B,
                                     int ldx, int lds) {
  int b = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (b >= B || i >= N) return;
  long long at = (long long)i * lds + b;
  double y = activate(code[i], S[at] + bias[i]);
  S[at] = leaked(leak[i], X[(long long)i * ldx + b], y);
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
