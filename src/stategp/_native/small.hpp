// Small dense matrices, row by row. `Dim<N>` is a size known to the compiler, `Dim<0>` one that is
// not. States of d > 8 dimensions are stored with zeros up to a multiple of four: rows then fill
// the registers, and directions of variance zero change nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace stategp {

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kRounding = 8 * kEps;  // pivots of correlations below this times d are zero

template <int N>
struct Dim {
  explicit Dim(int) {}
  static constexpr int n() { return N; }
  // The dimension of the state itself: sizes up to six are not rounded up.
  static constexpr int exact(int d) { return N <= 6 ? N : d; }
};

template <>
struct Dim<0> {
  int size;
  explicit Dim(int d) : size((d + 3) / 4 * 4) {}
  int n() const { return size; }
  static int exact(int d) { return d; }
};

// A function is written out wherever it is called for the smallest sizes only: for others that makes
// nothing faster, and compiling several times slower.
#define STATEGP_SPLIT(name, parameters, arguments)             \
  template <int N>                                             \
  __attribute__((noinline)) void name##_there parameters {     \
    name##_here arguments;                                     \
  }                                                            \
  template <int N>                                             \
  inline void name parameters {                                \
    if constexpr (N > 0 && N <= 3)                             \
      name##_here arguments;                                   \
    else                                                       \
      name##_there arguments;                                  \
  }

// Memory for many small matrices and vectors, cut from one piece, all zero. A gap after each keeps
// matrices of 2ⁿ bytes from falling on the same lines of the cache.
class Room {
 public:
  explicit Room(size_t doubles) : memory_(doubles + kMost * kGap), next_(memory_.data()) {}
  double* take(size_t doubles) {
    double* taken = next_;
    next_ += doubles + kGap;
    return taken;
  }

 private:
  static constexpr size_t kGap = 8, kMost = 40;
  std::vector<double> memory_;
  double* next_;
};

inline void load_matrix(const double* __restrict from, int rows, int columns, int from_stride, int n,
                        double* __restrict to) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) to[i * n + j] = from[i * from_stride + j];
    for (int j = columns; j < n; ++j) to[i * n + j] = 0;
  }
  for (int i = rows * n; i < n * n; ++i) to[i] = 0;
}

inline void store_matrix(const double* __restrict from, int n, int rows, int columns,
                         double* __restrict to, int to_stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) to[i * to_stride + j] = from[i * n + j];
}

inline void load_vector(const double* from, int d, int n, double* to) {
  for (int i = 0; i < d; ++i) to[i] = from[i];
  for (int i = d; i < n; ++i) to[i] = 0;
}

inline bool all_zero(const double* values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (values[i] != 0) return false;
  return true;
}

inline bool same(const double* left, const double* right, size_t count) {
  return std::memcmp(left, right, sizeof(double) * count) == 0;
}

constexpr int kLook = 8;          // states between two looks at whether covariances stand still
constexpr double kStill = 2e-14;  // largest change of correlations over that many states

inline bool stands_still(int n, const double* now, const double* before) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      const double change = now[i * n + j] - before[i * n + j];
      if (!(change * change <= kStill * kStill * std::abs(now[i * n + i] * now[j * n + j])))
        return false;
    }
  return true;
}

// Four numbers in a register.
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
inline Four& four(double* at) { return *reinterpret_cast<Four*>(at); }
inline const Four& four(const double* at) { return *reinterpret_cast<const Four*>(at); }

template <int N>
inline double dot(Dim<N> s, const double* __restrict a, const double* __restrict b) {
  const int n = s.n();
  if constexpr (N % 4 == 0 && N != 4) {
    Four sums = four(a) * four(b);
    for (int i = 4; i < n; i += 4) sums += four(a + i) * four(b + i);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += factor x
template <int N>
inline void add_scaled(Dim<N> s, double factor, const double* __restrict x, double* __restrict y) {
  const int n = s.n();
  if constexpr (N % 4 == 0) {
    for (int i = 0; i < n; i += 4) four(y + i) += factor * four(x + i);
  } else {
    for (int i = 0; i < n; ++i) y[i] += factor * x[i];
  }
}

// Four rows by 4 W columns of a sum of products, in registers.
template <int W>
inline void tile(int count, const double* factors, const int* used, const double* b, int n,
                 bool add, double* c) {
  Four sum[4][W] = {};
  if (add)
    for (int r = 0; r < 4; ++r)
      for (int w = 0; w < W; ++w) sum[r][w] = four(c + r * n + 4 * w);
  for (int q = 0; q < count; ++q) {
    const double* row = b + used[q] * n;
    for (int w = 0; w < W; ++w) {
      const Four x = four(row + 4 * w);
      for (int r = 0; r < 4; ++r) sum[r][w] += factors[4 * q + r] * x;
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int w = 0; w < W; ++w) four(c + r * n + 4 * w) = sum[r][w];
}

// Rows i to i + 3 of c, from column `first` on: plus Σ_k factor(k, r) times row k of b, for `from` ≤
// k < `to`. With `add`, to what is there. Factors that are zero in all four rows cost nothing.
template <typename Factor>
inline void four_rows(int n, int from, int to, const Factor& factor, const double* b, int first,
                      bool add, double* c) {
  constexpr int kMost = 256;  // factors at a time, which stay in the cache
  double factors[4 * kMost];
  int used[kMost];
  do {
    int count = 0;
    for (; from < to && count < kMost; ++from) {
      double* here = factors + 4 * count;
      for (int r = 0; r < 4; ++r) here[r] = factor(from, r);
      used[count] = from;
      count += here[0] != 0 || here[1] != 0 || here[2] != 0 || here[3] != 0;
    }
    int j = first;
    for (; j + 12 <= n; j += 12) tile<3>(count, factors, used, b + j, n, add, c + j);
    for (; j + 8 <= n; j += 8) tile<2>(count, factors, used, b + j, n, add, c + j);
    for (; j + 4 <= n; j += 4) tile<1>(count, factors, used, b + j, n, add, c + j);
    add = true;
  } while (from < to);
}

// c = a b, or aᵀ b, for any size; the upper triangle only if `upper`.
template <bool kTransposed>
inline void large_product(int n, bool upper, const double* a, const double* b, double* c) {
  for (int i = 0; i < n; i += 4) {
    const auto factor = [&](int k, int r) {
      return kTransposed ? a[k * n + i + r] : a[(i + r) * n + k];
    };
    four_rows(n, 0, n, factor, b, upper ? i : 0, false, c + i * n);
  }
}

// c = a b, or aᵀ b
template <bool kTransposed, int N>
inline void product_here(Dim<N> s, const double* __restrict a, const double* __restrict b,
                         double* __restrict c) {
  const int n = s.n();
  const auto left = [&](int i, int k) { return kTransposed ? a[k * n + i] : a[i * n + k]; };
  if constexpr (N > 0 && N % 4 == 0) {  // two rows at a time, all of their entries in registers
    for (int i = 0; i < N; i += 2) {
      Four row[2][N / 4] = {};
      for (int k = 0; k < N; ++k)
        for (int r = 0; r < 2; ++r) {
          const double factor = left(i + r, k);
          for (int j = 0; j < N / 4; ++j) row[r][j] += factor * four(b + k * N + 4 * j);
        }
      for (int r = 0; r < 2; ++r)
        for (int j = 0; j < N / 4; ++j) four(c + (i + r) * N + 4 * j) = row[r][j];
    }
  } else if constexpr (N > 0) {
    for (int i = 0; i < N; ++i) {
      double row[N] = {};
      for (int k = 0; k < N; ++k)
        for (int j = 0; j < N; ++j) row[j] += left(i, k) * b[k * N + j];
      for (int j = 0; j < N; ++j) c[i * N + j] = row[j];
    }
  } else {
    large_product<kTransposed>(n, false, a, b, c);
  }
}

// c = a b
template <int N>
inline void mul_here(Dim<N> s, const double* a, const double* b, double* c) {
  product_here<false>(s, a, b, c);
}
STATEGP_SPLIT(mul, (Dim<N> s, const double* a, const double* b, double* c), (s, a, b, c))

// c = aᵀ b
template <int N>
inline void mul_tn_here(Dim<N> s, const double* a, const double* b, double* c) {
  product_here<true>(s, a, b, c);
}
STATEGP_SPLIT(mul_tn, (Dim<N> s, const double* a, const double* b, double* c), (s, a, b, c))

// Four rows of four numbers, from a matrix of n columns to the mirrored place of another.
inline void transpose_four(const double* from, double* to, int n) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define STATEGP_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
  const Four a = four(from), b = four(from + n), c = four(from + 2 * n), d = four(from + 3 * n);
  const Four ab_even = STATEGP_SHUFFLE(a, b, 0, 4, 2, 6), ab_odd = STATEGP_SHUFFLE(a, b, 1, 5, 3, 7);
  const Four cd_even = STATEGP_SHUFFLE(c, d, 0, 4, 2, 6), cd_odd = STATEGP_SHUFFLE(c, d, 1, 5, 3, 7);
  four(to) = STATEGP_SHUFFLE(ab_even, cd_even, 0, 1, 4, 5);
  four(to + n) = STATEGP_SHUFFLE(ab_odd, cd_odd, 0, 1, 4, 5);
  four(to + 2 * n) = STATEGP_SHUFFLE(ab_even, cd_even, 2, 3, 6, 7);
  four(to + 3 * n) = STATEGP_SHUFFLE(ab_odd, cd_odd, 2, 3, 6, 7);
#undef STATEGP_SHUFFLE
  return;
#endif
#endif
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) to[j * n + i] = from[i * n + j];
}

template <int N>
inline void transpose_here(Dim<N> s, const double* __restrict a, double* __restrict t) {
  const int n = s.n();
  if constexpr (N % 4 == 0 && N != 4) {
    for (int i = 0; i < n; i += 4)
      for (int j = 0; j < n; j += 4) transpose_four(a + i * n + j, t + j * n + i, n);
    return;
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) t[j * n + i] = a[i * n + j];
}
STATEGP_SPLIT(transpose, (Dim<N> s, const double* a, double* t), (s, a, t))

// c = a bᵀ; `work` holds bᵀ afterwards
template <int N>
inline void mul_nt(Dim<N> s, const double* __restrict a, const double* __restrict b,
                   double* __restrict c, double* __restrict work) {
  transpose(s, b, work);
  mul(s, a, work, c);
}

// y = a x
template <int N>
inline void apply(Dim<N> s, const double* __restrict a, const double* __restrict x,
                  double* __restrict y) {
  const int n = s.n();
  for (int i = 0; i < n; ++i) y[i] = dot(s, a + i * n, x);
}

// y = a x for a symmetric a
template <int N>
inline void times_symmetric(Dim<N> s, const double* __restrict a, const double* __restrict x,
                            double* __restrict y) {
  const int n = s.n();
  if constexpr (N > 4 && N % 4 == 0) {
    Four sums[N / 4] = {};
    for (int k = 0; k < N; ++k)
      for (int j = 0; j < N / 4; ++j) sums[j] += x[k] * four(a + k * N + 4 * j);
    for (int j = 0; j < N / 4; ++j) four(y + 4 * j) = sums[j];
  } else {
    for (int i = 0; i < n; ++i) y[i] = dot(s, a + i * n, x);
  }
}

// A matrix by columns, for many products with vectors: four entries of one at a time, without what is
// zero outside of the columns that these four rows have.
template <int N>
class ByColumns {
 public:
  ByColumns(Dim<N> s, const double* a, bool transposed = false)
      : s_(s), n_(s.n()), columns_(n_ * n_), from_((n_ + 3) / 4, n_), until_((n_ + 3) / 4) {
    for (int i = 0; i < n_; ++i)
      for (int j = 0; j < n_; ++j) {
        const double entry = transposed ? a[j * n_ + i] : a[i * n_ + j];
        columns_[j * n_ + i] = entry;
        if (entry == 0) continue;
        from_[i / 4] = std::min(from_[i / 4], j);
        until_[i / 4] = std::max(until_[i / 4], j + 1);
      }
  }
  // y = a x
  void times(const double* __restrict x, double* __restrict y) const {
    const double* __restrict columns = columns_.data();
    if constexpr (N > 0 && N <= 4) {
      for (int i = 0; i < N; ++i) {
        double sum = 0;
        for (int j = 0; j < N; ++j) sum += columns[j * N + i] * x[j];
        y[i] = sum;
      }
    } else {
      const int n = s_.n();
      for (int b = 0; b < n / 4; ++b) {
        Four sum = {};
        for (int j = from_[b]; j < until_[b]; ++j) sum += x[j] * four(columns + j * n + 4 * b);
        four(y + 4 * b) = sum;
      }
    }
  }

 private:
  Dim<N> s_;
  int n_;
  std::vector<double> columns_;
  std::vector<int> from_, until_;  // of every four rows
};

template <int W>
inline void outer_tile(int n, int count, const double* __restrict left,
                       const double* __restrict right, double* __restrict c) {
  Four sum[4][W];
  for (int r = 0; r < 4; ++r)
    for (int w = 0; w < W; ++w) sum[r][w] = four(c + r * n + 4 * w);
  for (int q = 0; q < count; ++q, left += n, right += n)
    for (int w = 0; w < W; ++w) {
      const Four x = four(right + 4 * w);
      for (int r = 0; r < 4; ++r) sum[r][w] += left[r] * x;
    }
  for (int r = 0; r < 4; ++r)
    for (int w = 0; w < W; ++w) four(c + r * n + 4 * w) = sum[r][w];
}

// c += Σ x yᵀ over `count` vectors each; of row i the columns first(i) to until(i), or more of them.
template <int N, typename First, typename Until>
inline void outer_sums(Dim<N> s, int count, const double* x, const double* y, const First& first,
                       const Until& until, double* c) {
  if constexpr (N > 0 && N < 4) {
    double sum[N * N] = {};
    for (int q = 0; q < count; ++q, x += N, y += N)
      for (int i = 0; i < N; ++i)
        for (int l = 0; l < N; ++l) sum[i * N + l] += x[i] * y[l];
    for (int i = 0; i < N * N; ++i) c[i] += sum[i];
  } else {
    const int n = s.n();
    for (int i = 0; i < n; i += 4) {
      int from = n, to = 0;
      for (int r = i; r < i + 4; ++r) from = std::min(from, first(r)), to = std::max(to, until(r));
      int j = from / 4 * 4;
      for (; j + 4 < to; j += 8) outer_tile<2>(n, count, x + i, y + j, c + i * n + j);
      if (j < to) outer_tile<1>(n, count, x + i, y + j, c + i * n + j);
    }
  }
}

// y = aᵀ x
template <int N>
inline void apply_t(Dim<N> s, const double* __restrict a, const double* __restrict x,
                    double* __restrict y) {
  const int n = s.n();
  for (int j = 0; j < n; ++j) y[j] = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) y[j] += a[i * n + j] * x[i];
}

// The lower triangle becomes the mirror of the upper one's and its own mean.
template <int N>
inline void symmetrise_here(Dim<N> s, double* __restrict a) {
  const int n = s.n();
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j) {
      const double mean = (a[i * n + j] + a[j * n + i]) / 2;
      a[i * n + j] = mean;
      a[j * n + i] = mean;
    }
}
STATEGP_SPLIT(symmetrise, (Dim<N> s, double* a), (s, a))

// The lower triangle becomes the mirror of the upper one.
template <int N>
inline void mirror(Dim<N> s, double* a) {
  const int n = s.n();
  if constexpr (N % 4 == 0 && N != 4) {
    for (int i = 0; i < n; i += 4) {
      for (int k = i; k < i + 4; ++k)
        for (int j = k + 1; j < i + 4; ++j) a[j * n + k] = a[k * n + j];
      for (int j = i + 4; j < n; j += 4) transpose_four(a + i * n + j, a + j * n + i, n);
    }
    return;
  }
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j) a[j * n + i] = a[i * n + j];
}

// c = a b, or aᵀ b, where that is symmetric.
template <bool kTransposed, int N>
inline void symmetric_product(Dim<N> s, const double* a, const double* b, double* c) {
  if constexpr (N == 0) {
    large_product<kTransposed>(s.n(), true, a, b, c);
    mirror(s, c);
  } else {
    if constexpr (kTransposed)
      mul_tn(s, a, b, c);
    else
      mul(s, a, b, c);
    symmetrise(s, c);
  }
}

// Triangular factors and solves take so many rows at a time: four if the size is not known.
template <int N>
constexpr int kRows(int n) {
  return N == 0 ? 4 : n;
}

// Rows begin to begin + 3 of x, from column `first` on (their own, if none is given), minus what the
// rows above take from them, as the columns of u say.
template <int N>
inline void take_rows_above(int n, int begin, const double* u, double* x, int first = -1) {
  if constexpr (N == 0)
    if (begin > 0) {
      const auto factor = [&](int k, int r) { return -u[k * n + begin + r]; };
      four_rows(n, 0, begin, factor, x, first < 0 ? begin : first, true, x + begin * n);
    }
}

// Upper U with UᵀU = a, in place of a (the lower triangle becomes zero). NaN where a is not positive
// definite. Adds log det a.
template <int N>
inline void cholesky_here(Dim<N> s, double* a, double* log_det) {
  const int n = s.n();
  double product = 1, sum = 0;
  for (int begin = 0; begin < n; begin += kRows<N>(n)) {
    const int end = begin + kRows<N>(n);
    take_rows_above<N>(n, begin, a, a);
    for (int j = begin; j < end; ++j) {
      const double pivot = a[j * n + j];
      product *= pivot;
      if (!(product > 1e-200 && product < 1e200)) {
        sum += std::log(product);
        product = 1;
      }
      const double inverse = 1 / std::sqrt(pivot);
      for (int i = j; i < n; ++i) a[j * n + i] *= inverse;
      for (int k = j + 1; k < end; ++k) {
        const double factor = a[j * n + k];
        for (int i = k; i < n; ++i) a[k * n + i] -= factor * a[j * n + i];
      }
      for (int i = 0; i < j; ++i) a[j * n + i] = 0;
    }
  }
  *log_det += sum + std::log(product);
}
STATEGP_SPLIT(cholesky, (Dim<N> s, double* a, double* log_det), (s, a, log_det))

// Upper U with UᵀU = c for any positive semi-definite c: factorised with unit diagonal, without
// jitter; a direction whose pivot vanishes has variance zero.
template <int N>
inline void psd_root_here(Dim<N> s, int d, const double* __restrict c, double* __restrict u) {
  const int n = s.n();
  double fixed[N > 0 ? 2 * N : 1];
  std::vector<double> dynamic;
  double* __restrict scale = fixed;
  if constexpr (N == 0) {
    dynamic.resize(2 * n);
    scale = dynamic.data();
  }
  double* __restrict inverse_scale = scale + n;
  const double tolerance = kRounding * d;
  for (int i = 0; i < n; ++i) {
    const double variance = c[i * n + i];
    scale[i] = variance > 0 ? std::sqrt(variance) : (variance <= 0 ? 0.0 : variance);
    inverse_scale[i] = scale[i] == 0 ? 1.0 : 1 / scale[i];
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      u[i * n + j] = c[i * n + j] * (inverse_scale[i] * inverse_scale[j]);
  for (int begin = 0; begin < n; begin += kRows<N>(n)) {
    const int end = begin + kRows<N>(n);
    take_rows_above<N>(n, begin, u, u);
    for (int j = begin; j < end; ++j) {
      const double pivot = u[j * n + j];
      const double inverse = pivot <= tolerance ? 0.0 : 1 / std::sqrt(pivot);
      for (int i = j; i < n; ++i) u[j * n + i] *= inverse;
      for (int k = j + 1; k < end; ++k) {
        const double factor = u[j * n + k];
        for (int i = k; i < n; ++i) u[k * n + i] -= factor * u[j * n + i];
      }
    }
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) u[i * n + j] = j < i ? 0.0 : u[i * n + j] * scale[j];
}
STATEGP_SPLIT(psd_root, (Dim<N> s, int d, const double* c, double* u), (s, d, c, u))

// X = U⁻ᵀ X for n columns; directions in which U vanishes give zero.
template <int N>
inline void solve_down_here(Dim<N> s, const double* __restrict u, double* __restrict x) {
  const int n = s.n();
  for (int begin = 0; begin < n; begin += kRows<N>(n)) {
    const int end = begin + kRows<N>(n);
    take_rows_above<N>(n, begin, u, x, 0);
    for (int i = begin; i < end; ++i) {
      double* __restrict row = x + i * n;
      for (int k = begin; k < i; ++k) {
        const double factor = u[k * n + i];
        const double* __restrict known = x + k * n;
        for (int j = 0; j < n; ++j) row[j] -= factor * known[j];
      }
      const double inverse = u[i * n + i] == 0 ? 0.0 : 1 / u[i * n + i];
      for (int j = 0; j < n; ++j) row[j] *= inverse;
    }
  }
}
STATEGP_SPLIT(solve_down, (Dim<N> s, const double* u, double* x), (s, u, x))

// X = U⁻¹ X
template <int N>
inline void solve_up_here(Dim<N> s, const double* __restrict u, double* __restrict x) {
  const int n = s.n();
  for (int end = n; end > 0; end -= kRows<N>(n)) {
    const int begin = end - kRows<N>(n);
    if constexpr (N == 0)
      if (end < n) {
        const auto factor = [&](int k, int r) { return -u[(begin + r) * n + k]; };
        four_rows(n, end, n, factor, x, 0, true, x + begin * n);
      }
    for (int i = end - 1; i >= begin; --i) {
      double* __restrict row = x + i * n;
      for (int k = i + 1; k < end; ++k) {
        const double factor = u[i * n + k];
        const double* __restrict known = x + k * n;
        for (int j = 0; j < n; ++j) row[j] -= factor * known[j];
      }
      const double inverse = u[i * n + i] == 0 ? 0.0 : 1 / u[i * n + i];
      for (int j = 0; j < n; ++j) row[j] *= inverse;
    }
  }
}
STATEGP_SPLIT(solve_up, (Dim<N> s, const double* u, double* x), (s, u, x))

// C⁻¹ x in place of a vector x, from the root of C.
template <int N>
inline void psd_divide_vector(Dim<N> s, const double* __restrict u, double* __restrict x) {
  const int n = s.n();
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < i; ++k) x[i] -= u[k * n + i] * x[k];
    x[i] *= u[i * n + i] == 0 ? 0.0 : 1 / u[i * n + i];
  }
  for (int i = n - 1; i >= 0; --i) {
    for (int k = i + 1; k < n; ++k) x[i] -= u[i * n + k] * x[k];
    x[i] *= u[i * n + i] == 0 ? 0.0 : 1 / u[i * n + i];
  }
}

// C⁻¹ X in place of X (n × n), from the root of C; directions of variance zero give zero.
template <int N>
inline void psd_divide(Dim<N> s, const double* u, double* x) {
  solve_down(s, u, x);
  solve_up(s, u, x);
}

// (C⁻¹ + J)⁻¹ = S (I + SᵀJS)⁻¹ Sᵀ from the root U = Sᵀ of C; log det(I + CJ) is added.
template <int N>
inline void tilt_here(Dim<N> s, const double* __restrict u, const double* __restrict J,
                 double* __restrict tilted, double* log_det, double* __restrict work) {
  const int n = s.n();
  double* __restrict inner = work;
  double* __restrict other = work + n * n;
  mul(s, u, J, other);
  transpose(s, u, tilted);
  symmetric_product<false>(s, other, tilted, inner);
  for (int i = 0; i < n; ++i) inner[i * n + i] += 1;
  cholesky(s, inner, log_det);
  std::memcpy(other, u, sizeof(double) * n * n);
  solve_down(s, inner, other);
  symmetric_product<true>(s, other, other, tilted);
}
STATEGP_SPLIT(tilt, (Dim<N> s, const double* u, const double* J, double* tilted, double* log_det,
                double* work), (s, u, J, tilted, log_det, work))

}  // namespace stategp
