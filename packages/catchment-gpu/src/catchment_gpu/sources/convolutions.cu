#define TOGETHER 4

__device__ __forceinline__ int of_a_warp(int value) {
  for (int k = 16; k > 0; k >>= 1) value += __shfl_down_sync(0xFFFFFFFFu, value, k);
  return value;
}

extern "C" __global__ void __launch_bounds__(512)
count_above(const int* X, int* scratch, const int* groups, const int* channels,
            const int* features, int* out, int n, int I, int T, int G, int F, int in_shared) {
  extern __shared__ int memory[];
  int* y = in_shared ? memory : scratch + (long long)blockIdx.x * T;
  long long items = (long long)n * G;
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    long long r = item / G;
    int g = (int)(item % G);
    const int* group = groups + 3 * g;
    int d = group[0], first = group[1], last = group[4], begin = group[2], end = group[5];
    const int* x = X + r * I * T;
    for (int t = threadIdx.x; t < T; t += blockDim.x) {
      int sum = 0;
      for (int k = first; k < last; k++) sum += x[(long long)channels[k] * T + t];
      y[t] = sum;
    }
    __syncthreads();
    for (int f = begin; f < end; f += TOGETHER) {
      int m = end - f < TOGETHER ? end - f : TOGETHER;
      int counts[TOGETHER], weights[TOGETHER][9], biases[TOGETHER], edges[TOGETHER];
      #pragma unroll
      for (int k = 0; k < TOGETHER; k++) {
        const int* feature = features + 4 * (f + (k < m ? k : 0));
        counts[k] = 0;
        edges[k] = feature[1] ? 0 : 4 * d;
        biases[k] = feature[2];
        #pragma unroll
        for (int j = 0; j < 9; j++) weights[k][j] = (feature[0] >> j) & 1 ? 2 : -1;
      }
      for (int t = threadIdx.x; t < T; t += blockDim.x) {
        int taps[9];
        #pragma unroll
        for (int j = 0; j < 9; j++) {
          int at = t + (j - 4) * d;
          taps[j] = at >= 0 && at < T ? y[at] : 0;
        }
        #pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
          if (k < m) {
            int sum = 0;
            #pragma unroll
            for (int j = 0; j < 9; j++) sum += weights[k][j] * taps[j];
            counts[k] += sum > biases[k] && t >= edges[k] && t < T - edges[k];
          }
        }
      }
      #pragma unroll
      for (int k = 0; k < TOGETHER; k++) {
        if (k < m) {
          int count = of_a_warp(counts[k]);
          if (threadIdx.x % 32 == 0) atomicAdd(out + r * F + features[4 * (f + k) + 3], count);
        }
      }
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(512)
compete(const int* X, int* scratch, const int* groups, const int* channels, const int* W,
        long long* out, int n, int I, int T, int G, int C, int in_shared) {
  extern __shared__ int memory[];
  int* y = in_shared ? memory : scratch + (long long)blockIdx.x * T;
  long long items = (long long)n * G;
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    long long r = item / G;
    int g = (int)(item % G), d = groups[2 * g], differs = groups[2 * g + 1], steps = T - differs;
    const int *x = X + r * I * T, *w = W + 72 * g;
    for (int t = threadIdx.x; t < steps; t += blockDim.x) {
      int sum = 0;
      for (int k = 0; k < C; k++) {
        const int* channel = x + (long long)channels[g * C + k] * T + t;
        sum += differs ? channel[1] - channel[0] : channel[0];
      }
      y[t] = sum;
    }
    __syncthreads();
    long long sums[8];
    int counts[8];
    #pragma unroll
    for (int k = 0; k < 8; k++) sums[k] = counts[k] = 0;
    for (int t = threadIdx.x; t < steps; t += blockDim.x) {
      int taps[9], most = 0, least = 0, winner = 0, loser = 0;
      #pragma unroll
      for (int j = 0; j < 9; j++) {
        int at = t + (j - 4) * d;
        taps[j] = at >= 0 && at < steps ? y[at] : 0;
      }
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        int response = 0;
        #pragma unroll
        for (int j = 0; j < 9; j++) response += w[9 * k + j] * taps[j];
        if (k == 0 || response > most) { most = response; winner = k; }
        if (k == 0 || response < least) { least = response; loser = k; }
      }
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        sums[k] += winner == k ? most : 0;
        counts[k] += loser == k;
      }
    }
    long long* found = out + (r * G + g) * 16;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
      // A sum may be negative: as an unsigned number it wraps, and comes out the same.
      unsigned long long sum = (unsigned long long)sums[k];
      for (int m = 16; m > 0; m >>= 1) sum += __shfl_down_sync(0xFFFFFFFFu, sum, m);
      unsigned long long count = (unsigned long long)of_a_warp(counts[k]);
      if (threadIdx.x % 32 == 0) {
        atomicAdd((unsigned long long*)found + k, sum);
        atomicAdd((unsigned long long*)found + 8 + k, count);
      }
    }
    __syncthreads();
  }
}
