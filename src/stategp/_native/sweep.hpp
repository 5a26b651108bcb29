// From prior × sites to pair marginals and log Z: the recursions of chain/_sweep.py, interval by
// interval. Arrays have one row for every interval, as in Python.
#pragma once

#include "small.hpp"

namespace stategp {

struct Chain {
  int64_t intervals;
  int d;
  const double* A;          // intervals × d × d
  const double* Q;          // intervals × d × d
  const double* linear;     // intervals × 2d
  const double* precision;  // intervals × 2d × 2d

  // Whether an interval has the prior and the precision of the one before.
  bool repeats(int64_t m) const {
    const size_t square = size_t(d) * d;
    return m > 0 && same(A + m * square, A + (m - 1) * square, square) &&
           same(Q + m * square, Q + (m - 1) * square, square) &&
           same(precision + m * 4 * square, precision + (m - 1) * 4 * square, 4 * square);
  }
};

// Looks now and then, while everything repeats, at whether a covariance stands still.
class Standstill {
 public:
  explicit Standstill(int n) : n_(n), last_(size_t(n) * n) {}

  // A step whose matrices repeat those of the step before, or not; true if the covariance need not
  // be computed.
  bool step(bool repeated) {
    run_ = repeated ? run_ + 1 : 0;
    still_ = still_ && repeated;
    return still_;
  }

  // After a step that was computed.
  void look(const double* covariance) {
    if (run_ % kLook) return;
    still_ = run_ > 0 && stands_still(n_, covariance, last_.data());
    std::memcpy(last_.data(), covariance, sizeof(double) * n_ * n_);
  }

 private:
  int n_;
  std::vector<double> last_;
  int64_t run_ = 0;
  bool still_ = false;
};

// An interval with its site absorbed (chain/_sites.py, `absorb`).
template <int N>
class Element {
 public:
  Element(Dim<N> s, int d) : s_(s), d_(d), n_(s.n()), room_(12 * n_ * n_ + 6 * n_) {
    A0 = room_.take(n_ * n_);
    Q0 = room_.take(n_ * n_);
    A = room_.take(n_ * n_);
    C = room_.take(n_ * n_);
    J = room_.take(n_ * n_);
    a = room_.take(n_ * n_);
    b_t = room_.take(n_ * n_);
    c = room_.take(n_ * n_);
    G = room_.take(n_ * n_);
    root_ = room_.take(n_ * n_);
    work_ = room_.take(2 * n_ * n_);
    left = room_.take(n_);
    right = room_.take(n_);
    b = room_.take(n_);
    eta = room_.take(n_);
    vector_ = room_.take(2 * n_);
  }

  // With `later_eta` and `later_J`, what all later sites say about the right state counts too.
  void absorb(const Chain& chain, int64_t m, const double* later_eta = nullptr,
              const double* later_J = nullptr) {
    const int d = s_.exact(d_), n = s_.n();
    const double* linear = chain.linear + m * 2 * d;
    const double* precision = chain.precision + m * 4 * d * d;
    load_matrix(chain.A + m * d * d, d, d, d, n, A0);
    load_matrix(chain.Q + m * d * d, d, d, d, n, Q0);
    load_vector(linear, d, n, left);
    load_vector(linear + d, d, n, right);
    load_matrix(precision, d, d, 2 * d, n, a);
    load_matrix(precision + d, d, d, 2 * d, n, work_);
    transpose(s_, work_, b_t);
    load_matrix(precision + 2 * d * d + d, d, d, 2 * d, n, c);
    if (later_J) {
      for (int i = 0; i < n; ++i) right[i] += later_eta[i];
      for (int i = 0; i < n * n; ++i) c[i] += later_J[i];
    }
    log_scale = 0;
    on_left_only = all_zero(right, n) && all_zero(b_t, n * n) && all_zero(c, n * n);
    if (on_left_only) {
      std::memcpy(A, A0, sizeof(double) * n * n);
      std::memcpy(C, Q0, sizeof(double) * n * n);
      std::memcpy(J, a, sizeof(double) * n * n);
      std::memcpy(eta, left, sizeof(double) * n);
      std::memset(b, 0, sizeof(double) * n);
      symmetrise(s_, J);
      return;
    }
    double log_det = 0;
    psd_root(s_, d, Q0, root_);
    tilt(s_, root_, c, C, &log_det, work_);
    mul(s_, c, A0, G);
    for (int i = 0; i < n * n; ++i) G[i] += b_t[i];  // the pull on `right` that moving `left` gives
    apply(s_, C, right, b);
    double* CG = work_;
    double* product = work_ + n * n;
    mul(s_, C, G, CG);
    for (int i = 0; i < n * n; ++i) A[i] = A0[i] - CG[i];
    add_pull();
    // J = a + K + Kᵀ − GᵀCG with K = (b + Aᵀc/2) A = (bᵀ + cA/2)ᵀ A
    mul_tn(s_, G, CG, product);
    for (int i = 0; i < n * n; ++i) root_[i] = (G[i] + b_t[i]) / 2;
    mul_tn(s_, root_, A0, J);
    for (int i = 0; i < n; ++i)
      for (int j = i; j < n; ++j) {
        const double value = (a[i * n + j] + a[j * n + i]) / 2 + J[i * n + j] + J[j * n + i] -
                             (product[i * n + j] + product[j * n + i]) / 2;
        // both halves are read above before either is written
        work_[i * n + j] = value;
      }
    for (int i = 0; i < n; ++i)
      for (int j = i; j < n; ++j) J[i * n + j] = J[j * n + i] = work_[i * n + j];
    log_det_ = log_det;
    log_scale = (dot(s_, right, b) - log_det) / 2;
  }

  // The same for an interval with the prior and the precision of the last; false if more than the
  // linear part has changed.
  bool absorb_linear(const Chain& chain, int64_t m) {
    const int d = s_.exact(d_), n = s_.n();
    const double* linear = chain.linear + m * 2 * d;
    if (on_left_only && !all_zero(linear + d, d)) return false;
    load_vector(linear, d, n, left);
    load_vector(linear + d, d, n, right);
    if (on_left_only) {
      std::memcpy(eta, left, sizeof(double) * n);
      return true;
    }
    apply(s_, C, right, b);
    add_pull();
    log_scale = (dot(s_, right, b) - log_det_) / 2;
    return true;
  }

  double *A0, *Q0, *A, *C, *J, *a, *b_t, *c, *G, *left, *right, *b, *eta;
  double log_scale = 0;
  bool on_left_only = false;

 private:
  // η = left + Aᵀ right − Gᵀ C right
  void add_pull() {
    apply_t(s_, A0, right, eta);
    apply_t(s_, G, b, vector_);
    for (int i = 0; i < s_.n(); ++i) eta[i] += left[i] - vector_[i];
  }

  Dim<N> s_;
  int d_, n_;
  Room room_;
  double *root_, *work_, *vector_;
  double log_det_ = 0;
};

// Forward and backward steps shared by the sweep and by samples. Where intervals repeat one another
// and the covariances stand still to rounding, only means move.
template <int N>
class Filter {
 public:
  Filter(Dim<N> s, int d)
      : element(s, d), s_(s), d_(d), n_(s.n()), room_(11 * n_ * n_ + 6 * n_), standstill_(n_) {
    mean = room_.take(n_);
    moved_ = room_.take(n_);
    pull_ = room_.take(n_);
    updated_mean = room_.take(n_);
    offset = room_.take(n_);
    covariance = room_.take(n_ * n_);
    root = room_.take(n_ * n_);
    updated = room_.take(n_ * n_);
    gain = room_.take(n_ * n_);
    backward = room_.take(n_ * n_);
    ahead_ = room_.take(n_ * n_);
    work_ = room_.take(4 * n_ * n_);
    std::memset(mean, 0, sizeof(double) * n_);
    std::memset(covariance, 0, sizeof(double) * n_ * n_);
    std::memset(root, 0, sizeof(double) * n_ * n_);
  }

  // From the left state before interval m to the right one, which becomes mean, covariance and
  // root; what the interval adds to log Z.
  double advance(const Chain& chain, int64_t m) {
    const int n = s_.n();
    still = standstill_.step(chain.repeats(m)) && element.absorb_linear(chain, m);
    if (!still) {
      element.absorb(chain, m);
      log_det_ = 0;
      if (all_zero(element.J, n * n))
        std::memcpy(updated, covariance, sizeof(double) * n * n);
      else
        tilt(s_, root, element.J, updated, &log_det_, work_);
    }
    apply(s_, element.J, mean, moved_);
    double exponent = -log_det_;
    for (int i = 0; i < n; ++i) {
      pull_[i] = element.eta[i] - moved_[i];
      exponent += (element.eta[i] + pull_[i]) * mean[i];
    }
    apply(s_, updated, pull_, moved_);
    exponent += dot(s_, pull_, moved_);
    for (int i = 0; i < n; ++i) updated_mean[i] = mean[i] + moved_[i];
    apply(s_, element.A, updated_mean, mean);
    for (int i = 0; i < n; ++i) mean[i] += element.b[i];
    if (still) return element.log_scale + exponent / 2;
    mul(s_, element.A, updated, ahead_);
    transpose(s_, ahead_, work_);
    symmetric_product<false>(s_, element.A, work_, covariance);
    for (int i = 0; i < n * n; ++i) covariance[i] += element.C[i];
    psd_root(s_, d_, covariance, root);
    standstill_.look(covariance);
    return element.log_scale + exponent / 2;
  }

  // left | right ~ N(gain right + offset, backward), after `advance`.
  void reverse() {
    const int n = s_.n();
    if (!still) reverse_matrices();
    apply(s_, gain, mean, offset);
    for (int i = 0; i < n; ++i) offset[i] = updated_mean[i] - offset[i];
  }

  Element<N> element;
  double *mean, *covariance, *root, *updated_mean, *updated, *gain, *offset, *backward;
  bool still = false;  // the last step moved means only

 private:
  void reverse_matrices() {
    const int n = s_.n();
    double *gain_t = ahead_, *keep_t = work_, *product = work_ + n * n, *other = work_ + 2 * n * n;
    psd_divide(s_, root, gain_t);
    transpose(s_, gain_t, gain);
    mul_tn(s_, element.A, gain_t, keep_t);
    for (int i = 0; i < n * n; ++i) keep_t[i] = -keep_t[i];
    for (int i = 0; i < n; ++i) keep_t[i * n + i] += 1;
    mul(s_, updated, keep_t, product);
    symmetric_product<true>(s_, keep_t, product, backward);
    mul(s_, element.C, gain_t, product);
    symmetric_product<true>(s_, gain_t, product, other);
    for (int i = 0; i < n * n; ++i) backward[i] += other[i];
  }

  Dim<N> s_;
  int d_, n_;
  Room room_;
  Standstill standstill_;
  double *moved_, *pull_, *ahead_, *work_;
  double log_det_ = 0;
};

struct Sweep {
  Chain chain;
  double* before_mean;        // intervals × d
  double* before_covariance;  // intervals × d × d
  double* pair_mean;          // intervals × 2d
  double* pair_covariance;    // intervals × 2d × 2d

  template <int N>
  double run(Dim<N> s) const {
    const int d = s.exact(chain.d), n = s.n();
    double log_normaliser = 0;
    Filter<N> filter(s, d);
    for (int64_t m = 0; m < chain.intervals; ++m) {
      std::memcpy(before_mean + m * d, filter.mean, sizeof(double) * d);
      store_matrix(filter.covariance, n, d, d, before_covariance + m * d * d, d);
      log_normaliser += filter.advance(chain, m);
      filter.reverse();
      // What the way back needs waits where its results will be.
      double* pair = pair_covariance + m * 4 * d * d;
      store_matrix(filter.gain, n, d, d, pair, d);
      store_matrix(filter.backward, n, d, d, pair + d * d, d);
      std::memcpy(pair_mean + m * 2 * d, filter.offset, sizeof(double) * d);
    }
    go_back(s);
    return log_normaliser;
  }

 private:
  template <int N>
  void go_back(Dim<N> s) const {
    const int d = s.exact(chain.d), n = s.n();
    const size_t square = sizeof(double) * n * n;
    Room room(7 * n * n + 3 * n);
    double *gain = room.take(n * n), *backward = room.take(n * n), *left = room.take(n * n),
           *right = room.take(n * n), *cross = room.take(n * n), *carried = room.take(n * n),
           *work = room.take(n * n);
    double *mean = room.take(n), *offset = room.take(n), *moved = room.take(n);
    Standstill standstill(n);
    std::memset(right, 0, square);
    std::memset(mean, 0, sizeof(double) * n);
    for (int64_t m = chain.intervals - 1; m >= 0; --m) {
      double* pair = pair_covariance + m * 4 * d * d;
      double* means = pair_mean + m * 2 * d;
      load_matrix(pair, d, d, d, n, work);
      load_matrix(pair + d * d, d, d, d, n, carried);
      load_vector(means, d, n, offset);
      const bool repeated = m + 1 < chain.intervals && same(work, gain, n * n) &&
                            same(carried, backward, n * n);
      if (standstill.step(repeated)) {
        std::memcpy(left, right, square);
      } else {
        std::memcpy(gain, work, square);
        std::memcpy(backward, carried, square);
        mul(s, gain, right, cross);
        transpose(s, gain, work);
        symmetric_product<false>(s, cross, work, carried);
        for (int i = 0; i < n * n; ++i) left[i] = backward[i] + carried[i];
        standstill.look(left);
      }
      apply(s, gain, mean, moved);
      for (int i = 0; i < d; ++i) {
        for (int j = 0; j < d; ++j) {
          pair[i * 2 * d + j] = left[i * n + j];
          pair[i * 2 * d + d + j] = cross[i * n + j];
          pair[(d + i) * 2 * d + j] = cross[j * n + i];
          pair[(d + i) * 2 * d + d + j] = right[i * n + j];
        }
        means[i] = moved[i] + offset[i];
        means[d + i] = mean[i];
      }
      for (int i = 0; i < n; ++i) mean[i] = moved[i] + offset[i];
      std::swap(left, right);
    }
  }
};

// The derivatives of log Z in the moments (m, P) that each right state had before later sites, from
// those it has with them, (m*, P*): P⁻¹(m* − m) and ½(r rᵀ − P⁻¹(P − P*)P⁻¹).
struct LaterSites {
  int64_t intervals;
  int d;
  const double* before_mean;
  const double* before_covariance;
  const double* pair_mean;
  const double* pair_covariance;
  double* pull;
  double* stretch;

  template <int N>
  void run(Dim<N> s) const {
    const int n = s.n();
    const size_t square = size_t(d) * d;
    Room room(4 * n * n + n);
    double *P = room.take(n * n), *root = room.take(n * n), *shrink = room.take(n * n),
           *work = room.take(n * n), *shift = room.take(n);
    for (int64_t m = 0; m < intervals; ++m) {
      double* r = pull + m * d;
      double* curvature = stretch + m * d * d;
      if (m == intervals - 1) {  // there is no right state
        std::fill(r, r + d, 0.0);
        std::fill(curvature, curvature + d * d, 0.0);
        return;
      }
      const double* before = before_covariance + (m + 1) * square;
      const double* pair = pair_covariance + m * 4 * square;
      // Covariances of equal pairs are equal, too.
      const bool repeated = m > 0 && same(before, before - square, square) &&
                            same(pair, pair - 4 * square, 4 * square);
      if (!repeated) {
        load_matrix(before, d, d, d, n, P);
        psd_root(s, d, P, root);
        std::memset(shrink, 0, sizeof(double) * n * n);
        for (int i = 0; i < d; ++i)
          for (int j = 0; j < d; ++j)
            shrink[i * n + j] = P[i * n + j] - pair[(d + i) * 2 * d + d + j];
        psd_divide(s, root, shrink);
        transpose(s, shrink, work);
        psd_divide(s, root, work);
        symmetrise(s, work);
      }
      std::memset(shift, 0, sizeof(double) * n);
      for (int i = 0; i < d; ++i)
        shift[i] = pair_mean[m * 2 * d + d + i] - before_mean[(m + 1) * d + i];
      psd_divide_vector(s, root, shift);
      for (int i = 0; i < d; ++i) {
        r[i] = shift[i];
        for (int j = 0; j < d; ++j)
          curvature[i * d + j] = (shift[i] * shift[j] - work[i * n + j]) / 2;
      }
    }
  }
};

// The derivatives of a function of an absorbed interval in the prior and the site of that interval,
// from those in what the absorption gave: `absorb_one` of chain/_sites.py, line by line from its end.
template <int N>
class Unabsorb {
 public:
  Unabsorb(Dim<N> s, int d)
      : s_(s), d_(d), n_(s.n()), nn_(n_ * n_), room_(13 * size_t(nn_) + 6 * n_) {
    A = room_.take(nn_);
    C = room_.take(nn_);
    J = room_.take(nn_);
    bar_A_ = room_.take(nn_);
    bar_C_ = room_.take(nn_);
    bar_G_ = room_.take(nn_);
    bar_b_ = room_.take(nn_);
    bar_c_ = room_.take(nn_);
    x_ = room_.take(nn_);
    y_ = room_.take(nn_);
    work_ = room_.take(nn_);
    keep_ = room_.take(nn_);
    b = room_.take(n_);
    eta = room_.take(n_);
    moved_ = room_.take(n_);
    right_ = room_.take(n_);
    v_ = room_.take(n_);
  }

  // Derivatives in A, b, C, eta and J of the element; its log scale has derivative one.
  double *A, *b, *C, *eta, *J;

  void operator()(Element<N>& e, double* d_A, double* d_Q, double* d_linear,
                  double* d_precision) {
    const int d = d_, n = n_, nn = nn_;
    if (e.on_left_only && !d_linear) {
      store_matrix(A, n, d, d, d_A, d);
      store_matrix(C, n, d, d, d_Q, d);
      return;
    }
    if (e.on_left_only) std::memset(e.G, 0, sizeof(double) * nn);
    symmetrise(s_, J);
    // η = left + Aᵀ right − Gᵀ moved, Aₑ = A − C G, b = moved = C right
    apply(s_, e.A0, eta, right_);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) bar_A_[i * n + j] = A[i * n + j] + e.right[i] * eta[j];
    apply(s_, e.G, eta, moved_);
    for (int i = 0; i < n; ++i) {
      moved_[i] = b[i] - moved_[i] + e.right[i] / 2;
      right_[i] += e.b[i] / 2;
    }
    apply(s_, e.C, moved_, v_);
    for (int i = 0; i < n; ++i) right_[i] += v_[i];
    // of C: C̄ − G J̄ Gᵀ − Āₑ Gᵀ + moved̄ rightᵀ, symmetrised
    mul(s_, e.G, J, x_);
    for (int i = 0; i < nn; ++i) y_[i] = x_[i] + A[i];
    mul_nt(s_, y_, e.G, bar_C_, work_);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        bar_C_[i * n + j] = C[i * n + j] - bar_C_[i * n + j] + moved_[i] * e.right[j];
    symmetrise(s_, bar_C_);
    // of G: −2 C G J̄ − moved ηᵀ − C Āₑ
    for (int i = 0; i < nn; ++i) y_[i] = 2 * x_[i] + A[i];
    mul(s_, e.C, y_, bar_G_);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) bar_G_[i * n + j] = -bar_G_[i * n + j] - e.b[i] * eta[j];
    // J = a + K + Kᵀ − GᵀCG, K = B A with B = b + Aᵀc/2 and K̄ = 2 J̄
    for (int i = 0; i < nn; ++i) work_[i] = 2 * J[i];
    mul(s_, e.c, e.A0, y_);
    for (int i = 0; i < nn; ++i) x_[i] = e.b_t[i] + y_[i] / 2;
    mul(s_, x_, work_, y_);
    for (int i = 0; i < nn; ++i) bar_A_[i] += y_[i];
    mul_nt(s_, work_, e.A0, bar_b_, keep_);  // B̄ = K̄ Aᵀ
    mul_nt(s_, e.c, bar_b_, y_, keep_);      // c B̄ᵀ
    for (int i = 0; i < nn; ++i) bar_A_[i] += y_[i] / 2;
    mul(s_, e.A0, bar_b_, bar_c_);
    for (int i = 0; i < nn; ++i) bar_c_[i] /= 2;
    // G = bᵀ + cA
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) bar_b_[i * n + j] += bar_G_[j * n + i];
    mul_nt(s_, bar_G_, e.A0, y_, keep_);
    for (int i = 0; i < nn; ++i) bar_c_[i] += y_[i];
    mul(s_, e.c, bar_G_, y_);
    for (int i = 0; i < nn; ++i) bar_A_[i] += y_[i];
    // C = tilt(Q, c): dC = R dQ Rᵀ − C dc C with R = I − C c
    mul(s_, e.C, e.c, keep_);
    for (int i = 0; i < nn; ++i) keep_[i] = -keep_[i];
    for (int i = 0; i < n; ++i) keep_[i * n + i] += 1;
    mul(s_, bar_C_, keep_, x_);
    mul_tn(s_, keep_, x_, y_);
    mul(s_, e.c, keep_, x_);
    for (int i = 0; i < nn; ++i) y_[i] -= x_[i] / 2;
    symmetrise(s_, y_);
    store_matrix(bar_A_, n, d, d, d_A, d);
    store_matrix(y_, n, d, d, d_Q, d);
    if (!d_linear) return;
    mul(s_, e.C, bar_C_, x_);
    mul(s_, x_, e.C, y_);
    for (int i = 0; i < nn; ++i) bar_c_[i] -= y_[i] + e.C[i] / 2;
    symmetrise(s_, bar_c_);
    for (int i = 0; i < d; ++i) {
      d_linear[i] = eta[i];
      d_linear[d + i] = right_[i];
      for (int j = 0; j < d; ++j) {
        d_precision[i * 2 * d + j] = J[i * n + j];
        d_precision[i * 2 * d + d + j] = bar_b_[i * n + j];
        d_precision[(d + i) * 2 * d + j] = 0;  // the mirror of the block above is not read
        d_precision[(d + i) * 2 * d + d + j] = bar_c_[i * n + j];
      }
    }
  }

 private:
  Dim<N> s_;
  int d_, n_, nn_;
  Room room_;
  double *bar_A_, *bar_C_, *bar_G_, *bar_b_, *bar_c_, *x_, *y_, *work_, *keep_;
  double *moved_, *right_, *v_;
};

// Derivatives of log Z in the prior and the sites, interval by interval, for fixed messages.
struct LocalGradient {
  Chain chain;
  bool potentials;  // messages are those of `sweep_indefinite`, (mean, covariance, eta, J)
  const double* near_mean;
  const double* near_covariance;
  const double* far_vector;  // pull, or eta
  const double* far_matrix;  // stretch, or J
  double* d_A;
  double* d_Q;
  double* d_linear;  // null if nobody asks for those in the sites
  double* d_precision;

  template <int N>
  void run(Dim<N> s) const {
    const int d = s.exact(chain.d), n = s.n(), nn = n * n;
    Element<N> e(s, d);
    Unabsorb<N> bar(s, d);
    Room room(8 * size_t(nn) + 8 * n);
    double *P = room.take(nn), *root = room.take(nn), *U = room.take(nn), *S = room.take(nn),
           *x = room.take(nn), *bar_U = room.take(nn), *work = room.take(2 * nn);
    double *m0 = room.take(n), *m1 = room.take(n), *r = room.take(n), *p = room.take(n),
           *moved = room.take(n), *bar_m = room.take(n), *v = room.take(n);
    for (int64_t m = 0; m < chain.intervals; ++m) {
      load_vector(near_mean + m * d, d, n, m0);
      load_vector(far_vector + m * d, d, n, r);
      load_matrix(near_covariance + m * d * d, d, d, d, n, P);
      load_matrix(far_matrix + m * d * d, d, d, d, n, S);
      if (potentials) {  // η·E[left] − ½ J : E[left leftᵀ] + log scale
        e.absorb(chain, m, r, S);
        std::memset(bar.A, 0, sizeof(double) * nn);
        std::memset(bar.C, 0, sizeof(double) * nn);
        std::memset(bar.b, 0, sizeof(double) * n);
        std::memcpy(bar.eta, m0, sizeof(double) * n);
        for (int i = 0; i < n; ++i)
          for (int j = 0; j < n; ++j) bar.J[i * n + j] = -(P[i * n + j] + m0[i] * m0[j]) / 2;
      } else {
        e.absorb(chain, m);
        symmetrise(s, S);
        double log_det = 0;
        psd_root(s, d, P, root);
        tilt(s, root, e.J, U, &log_det, work);
        apply(s, e.J, m0, p);
        for (int i = 0; i < n; ++i) p[i] = e.eta[i] - p[i];
        apply(s, U, p, moved);
        for (int i = 0; i < n; ++i) m1[i] = m0[i] + moved[i];
        // prediction: pull · (Aₑ m₁ + b) + stretch : (Aₑ U Aₑᵀ + C)
        mul(s, e.A, U, x);
        mul(s, S, x, bar.A);
        for (int i = 0; i < n; ++i)
          for (int j = 0; j < n; ++j) bar.A[i * n + j] = 2 * bar.A[i * n + j] + r[i] * m1[j];
        std::memcpy(bar.b, r, sizeof(double) * n);
        std::memcpy(bar.C, S, sizeof(double) * nn);
        mul(s, S, e.A, x);
        mul_tn(s, e.A, x, bar_U);
        apply_t(s, e.A, r, bar_m);
        // update: ½((η + p)·m₀ + p·moved − log det), moved = U p, p = η − J m₀
        for (int i = 0; i < n; ++i) bar_m[i] += p[i] / 2;
        apply(s, U, bar_m, v);
        for (int i = 0; i < n; ++i) {
          v[i] += (m0[i] + moved[i]) / 2;  // of p
          bar.eta[i] = m0[i] / 2 + v[i];
        }
        for (int i = 0; i < n; ++i)
          for (int j = 0; j < n; ++j)
            bar_U[i * n + j] += (bar_m[i] * p[j] + p[i] * bar_m[j]) / 2;
        mul(s, U, bar_U, x);
        mul(s, x, U, bar.J);
        for (int i = 0; i < n; ++i)
          for (int j = 0; j < n; ++j)
            bar.J[i * n + j] = -bar.J[i * n + j] - U[i * n + j] / 2 -
                               (v[i] * m0[j] + m0[i] * v[j]) / 2;
      }
      bar(e, d_A + m * d * d, d_Q + m * d * d, d_linear ? d_linear + m * 2 * d : nullptr,
          d_linear ? d_precision + m * 4 * d * d : nullptr);
    }
  }
};

// The sweep for sites that may be indefinite: potentials from the right end, then moments from the
// left (chain/_information.py).
struct SweepIndefinite {
  Chain chain;
  double* pair_mean;
  double* pair_covariance;
  double* mean;        // of the left state, intervals × d
  double* covariance;  // intervals × d × d
  double* eta;         // what all later sites say about the right state
  double* J;

  template <int N>
  double run(Dim<N> s) const {
    const int d = s.exact(chain.d), n = s.n(), nn = n * n;
    Element<N> e(s, d);
    Room room(5 * size_t(nn) + 3 * n);
    double *later_J = room.take(nn), *P = room.take(nn), *A = room.take(nn),
           *cross = room.take(nn), *work = room.take(nn);
    double *later_eta = room.take(n), *at = room.take(n), *next = room.take(n);
    double log_normaliser = 0;
    for (int64_t m = chain.intervals - 1; m >= 0; --m) {
      std::memcpy(eta + m * d, later_eta, sizeof(double) * d);
      store_matrix(later_J, n, d, d, J + m * d * d, d);
      e.absorb(chain, m, later_eta, later_J);
      log_normaliser += e.log_scale;
      std::memcpy(later_eta, e.eta, sizeof(double) * n);
      std::memcpy(later_J, e.J, sizeof(double) * nn);
      // What the way to the right needs waits where its results will be.
      double* pair = pair_covariance + m * 4 * d * d;
      store_matrix(e.A, n, d, d, pair, d);
      store_matrix(e.C, n, d, d, pair + d * d, d);
      std::memcpy(pair_mean + m * 2 * d, e.b, sizeof(double) * d);
    }
    for (int64_t m = 0; m < chain.intervals; ++m) {
      double* pair = pair_covariance + m * 4 * d * d;
      double* means = pair_mean + m * 2 * d;
      std::memcpy(mean + m * d, at, sizeof(double) * d);
      store_matrix(P, n, d, d, covariance + m * d * d, d);
      load_matrix(pair, d, d, d, n, A);
      load_matrix(pair + d * d, d, d, d, n, e.C);
      load_vector(means, d, n, e.b);
      mul(s, A, P, cross);
      mul_nt(s, cross, A, e.J, work);
      symmetrise(s, e.J);
      apply(s, A, at, next);
      for (int i = 0; i < nn; ++i) e.J[i] += e.C[i];
      for (int i = 0; i < n; ++i) next[i] += e.b[i];
      for (int i = 0; i < d; ++i) {
        for (int j = 0; j < d; ++j) {
          pair[i * 2 * d + j] = P[i * n + j];
          pair[i * 2 * d + d + j] = cross[j * n + i];
          pair[(d + i) * 2 * d + j] = cross[i * n + j];
          pair[(d + i) * 2 * d + d + j] = e.J[i * n + j];
        }
        means[i] = at[i];
        means[d + i] = next[i];
      }
      std::memcpy(P, e.J, sizeof(double) * nn);
      std::memcpy(at, next, sizeof(double) * n);
    }
    return log_normaliser;
  }
};

// Joint samples of the states, drawn from the last to the first.
struct Samples {
  Chain chain;
  int64_t count;
  const double* white;  // intervals × samples × d
  double* states;       // samples × (intervals − 1) × d

  template <int N>
  void run(Dim<N> s) const {
    const int d = s.exact(chain.d), n = s.n();
    const int64_t intervals = chain.intervals;
    const size_t row = 2 * size_t(n) * n + n;
    std::vector<double> kept(row * intervals);
    {
      Filter<N> filter(s, d);
      for (int64_t m = 0; m < intervals; ++m) {
        filter.advance(chain, m);
        filter.reverse();
        double* place = kept.data() + m * row;
        std::memcpy(place, filter.gain, sizeof(double) * n * n);
        if (filter.still)
          std::memcpy(place + n * n, place + n * n - row, sizeof(double) * n * n);
        else
          psd_root(s, d, filter.backward, place + n * n);
        std::memcpy(place + 2 * n * n, filter.offset, sizeof(double) * n);
      }
    }
    std::vector<double> at(count * n, 0.0), next(n), draw(n, 0.0);
    for (int64_t m = intervals - 1; m > 0; --m) {
      const double* gain = kept.data() + m * row;
      const double* root = gain + n * n;
      const double* offset = root + n * n;
      for (int64_t k = 0; k < count; ++k) {
        const double* noise = white + (m * count + k) * d;
        double* state = at.data() + k * n;
        for (int i = 0; i < d; ++i) draw[i] = noise[i];
        apply(s, gain, state, next.data());
        for (int i = 0; i < n; ++i) state[i] = next[i] + offset[i];
        for (int i = 0; i < d; ++i)
          for (int j = i; j < n; ++j) state[j] += root[i * n + j] * draw[i];
        std::memcpy(states + (k * (intervals - 1) + m - 1) * d, state, sizeof(double) * d);
      }
    }
  }
};

// Joint samples of the prior at a run of steps: s ← A s + root(Q) w.
struct PriorSamples {
  int64_t steps;
  int d;
  int64_t count;
  const double* A;
  const double* Q;
  const double* white;  // steps × samples × d
  double* states;       // steps × samples × d

  template <int N>
  void run(Dim<N> s) const {
    const int n = s.n();
    Room room(3 * size_t(n) * n);
    double *carry = room.take(n * n), *noise = room.take(n * n), *root = room.take(n * n);
    std::vector<double> at(count * n, 0.0), next(n);
    for (int64_t m = 0; m < steps; ++m) {
      load_matrix(A + m * d * d, d, d, d, n, carry);
      load_matrix(Q + m * d * d, d, d, d, n, noise);
      psd_root(s, d, noise, root);
      for (int64_t k = 0; k < count; ++k) {
        const double* draw = white + (m * count + k) * d;
        double* state = at.data() + k * n;
        apply(s, carry, state, next.data());
        for (int i = 0; i < d; ++i)
          for (int j = i; j < n; ++j) next[j] += root[i * n + j] * draw[i];
        std::memcpy(state, next.data(), sizeof(double) * n);
        std::memcpy(states + (m * count + k) * d, state, sizeof(double) * d);
      }
    }
  }
};

// The states that a chain of affine maps passes through, the one before each map.
struct Follow {
  int64_t length;
  int d;
  int64_t columns;
  bool reverse;
  const double* matrix;  // length × d × d
  const double* offset;  // length × d × columns
  const double* start;   // d × columns
  double* states;        // length × d × columns

  void run() const {
    std::vector<double> now(start, start + d * columns), next(d * columns);
    for (int64_t step = 0; step < length; ++step) {
      const int64_t m = reverse ? length - 1 - step : step;
      std::memcpy(states + m * d * columns, now.data(), sizeof(double) * d * columns);
      const double* A = matrix + m * d * d;
      std::memcpy(next.data(), offset + m * d * columns, sizeof(double) * d * columns);
      for (int i = 0; i < d; ++i)
        for (int k = 0; k < d; ++k) {
          const double factor = A[i * d + k];
          const double* __restrict from = now.data() + k * columns;
          double* __restrict to = next.data() + i * columns;
          for (int64_t j = 0; j < columns; ++j) to[j] += factor * from[j];
        }
      now.swap(next);
    }
  }
};

}  // namespace stategp
