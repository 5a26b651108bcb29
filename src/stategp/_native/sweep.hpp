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

  void absorb(const Chain& chain, int64_t m) {
    const int d = d_, n = n_;
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
    // η = left + Aᵀ right − Gᵀ C right
    apply_t(s_, A0, right, eta);
    apply_t(s_, G, b, vector_);
    for (int i = 0; i < n; ++i) eta[i] += left[i] - vector_[i];
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
    log_scale = (dot(s_, right, b) - log_det) / 2;
  }

  double *A0, *Q0, *A, *C, *J, *a, *b_t, *c, *G, *left, *right, *b, *eta;
  double log_scale = 0;
  bool on_left_only = false;

 private:
  Dim<N> s_;
  int d_, n_;
  Room room_;
  double *root_, *work_, *vector_;
};

// Forward and backward steps shared by the sweep and by samples.
template <int N>
class Filter {
 public:
  Filter(Dim<N> s, int d)
      : element(s, d), s_(s), d_(d), n_(s.n()), room_(11 * n_ * n_ + 6 * n_) {
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
    const int n = n_;
    element.absorb(chain, m);
    double log_det = 0;
    if (all_zero(element.J, n * n))
      std::memcpy(updated, covariance, sizeof(double) * n * n);
    else
      tilt(s_, root, element.J, updated, &log_det, work_);
    apply(s_, element.J, mean, moved_);
    double exponent = -log_det;
    for (int i = 0; i < n; ++i) {
      pull_[i] = element.eta[i] - moved_[i];
      exponent += (element.eta[i] + pull_[i]) * mean[i];
    }
    apply(s_, updated, pull_, moved_);
    exponent += dot(s_, pull_, moved_);
    for (int i = 0; i < n; ++i) updated_mean[i] = mean[i] + moved_[i];
    apply(s_, element.A, updated_mean, mean);
    for (int i = 0; i < n; ++i) mean[i] += element.b[i];
    mul(s_, element.A, updated, ahead_);
    mul_nt(s_, ahead_, element.A, covariance, work_);
    for (int i = 0; i < n * n; ++i) covariance[i] += element.C[i];
    symmetrise(s_, covariance);
    psd_root(s_, d_, covariance, root);
    return element.log_scale + exponent / 2;
  }

  // left | right ~ N(gain right + offset, backward), after `advance`.
  void reverse() {
    const int n = n_;
    double *keep = work_, *product = work_ + n * n, *other = work_ + 2 * n * n,
           *spare = work_ + 3 * n * n;
    std::memcpy(product, ahead_, sizeof(double) * n * n);
    psd_divide(s_, root, product);
    transpose(s_, product, gain);
    mul(s_, gain, element.A, keep);
    for (int i = 0; i < n * n; ++i) keep[i] = -keep[i];
    for (int i = 0; i < n; ++i) keep[i * n + i] += 1;
    mul(s_, keep, updated, product);
    mul_nt(s_, product, keep, backward, spare);
    mul(s_, gain, element.C, product);
    mul_nt(s_, product, gain, other, spare);
    for (int i = 0; i < n * n; ++i) backward[i] += other[i];
    symmetrise(s_, backward);
    apply(s_, gain, mean, offset);
    for (int i = 0; i < n; ++i) offset[i] = updated_mean[i] - offset[i];
  }

  Element<N> element;
  double *mean, *covariance, *root, *updated_mean, *updated, *gain, *offset, *backward;

 private:
  Dim<N> s_;
  int d_, n_;
  Room room_;
  double *moved_, *pull_, *ahead_, *work_;
};

struct Sweep {
  Chain chain;
  double* before_mean;        // intervals × d
  double* before_covariance;  // intervals × d × d
  double* pair_mean;          // intervals × 2d
  double* pair_covariance;    // intervals × 2d × 2d

  template <int N>
  double run(Dim<N> s) const {
    const int d = chain.d, n = s.n();
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
    const int d = chain.d, n = s.n();
    Room room(6 * n * n + 3 * n);
    double *gain = room.take(n * n), *left = room.take(n * n), *right = room.take(n * n),
           *cross = room.take(n * n), *carried = room.take(n * n), *work = room.take(n * n);
    double *mean = room.take(n), *offset = room.take(n), *moved = room.take(n);
    std::memset(right, 0, sizeof(double) * n * n);
    std::memset(mean, 0, sizeof(double) * n);
    for (int64_t m = chain.intervals - 1; m >= 0; --m) {
      double* pair = pair_covariance + m * 4 * d * d;
      double* means = pair_mean + m * 2 * d;
      load_matrix(pair, d, d, d, n, gain);
      load_matrix(pair + d * d, d, d, d, n, left);
      load_vector(means, d, n, offset);
      mul(s, gain, right, cross);
      mul_nt(s, cross, gain, carried, work);
      symmetrise(s, carried);
      for (int i = 0; i < n * n; ++i) left[i] += carried[i];
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
      load_matrix(before_covariance + (m + 1) * d * d, d, d, d, n, P);
      psd_root(s, d, P, root);
      const double* pair = pair_covariance + m * 4 * d * d;
      std::memset(shift, 0, sizeof(double) * n);
      std::memset(shrink, 0, sizeof(double) * n * n);
      for (int i = 0; i < d; ++i) {
        shift[i] = pair_mean[m * 2 * d + d + i] - before_mean[(m + 1) * d + i];
        for (int j = 0; j < d; ++j)
          shrink[i * n + j] = P[i * n + j] - pair[(d + i) * 2 * d + d + j];
      }
      solve_down(s, root, shift, 1);
      solve_up(s, root, shift, 1);
      psd_divide(s, root, shrink);
      transpose(s, shrink, work);
      psd_divide(s, root, work);
      symmetrise(s, work);
      for (int i = 0; i < d; ++i) {
        r[i] = shift[i];
        for (int j = 0; j < d; ++j)
          curvature[i * d + j] = (shift[i] * shift[j] - work[i * n + j]) / 2;
      }
    }
  }
};

// The derivatives of log Z in everything that belongs to an interval, for fixed messages: those of
// `local_log_normaliser` in chain/_sweep.py, line by line from its end.
struct LocalGradient {
  Chain chain;
  const double* before_mean;
  const double* before_covariance;
  const double* pull;
  const double* stretch;
  double* d_A;
  double* d_Q;
  double* d_linear;
  double* d_precision;

  template <int N>
  void run(Dim<N> s) const {
    const int d = chain.d, n = s.n();
    const int nn = n * n;
    Element<N> e(s, d);
    Room room(18 * nn + 12 * n);
    double *P = room.take(nn), *root = room.take(nn), *U = room.take(nn), *S = room.take(nn),
           *AU = room.take(nn), *bar_A = room.take(nn), *bar_Ae = room.take(nn),
           *bar_U = room.take(nn), *bar_C = room.take(nn), *bar_J = room.take(nn),
           *bar_G = room.take(nn), *bar_b = room.take(nn), *bar_c = room.take(nn),
           *x = room.take(nn), *y = room.take(nn), *work = room.take(2 * nn),
           *keep = room.take(nn);
    double *m0 = room.take(n), *m1 = room.take(n), *r = room.take(n), *p = room.take(n),
           *mv = room.take(n), *bar_m = room.take(n), *bar_p = room.take(n),
           *bar_eta = room.take(n), *bar_moved = room.take(n), *bar_right = room.take(n),
           *v = room.take(n);
    for (int64_t m = 0; m < chain.intervals; ++m) {
      e.absorb(chain, m);
      load_vector(before_mean + m * d, d, n, m0);
      load_vector(pull + m * d, d, n, r);
      load_matrix(before_covariance + m * d * d, d, d, d, n, P);
      load_matrix(stretch + m * d * d, d, d, d, n, S);
      symmetrise(s, S);
      double log_det = 0;
      psd_root(s, d, P, root);
      tilt(s, root, e.J, U, &log_det, work);
      apply(s, e.J, m0, p);
      for (int i = 0; i < n; ++i) p[i] = e.eta[i] - p[i];
      apply(s, U, p, mv);
      for (int i = 0; i < n; ++i) m1[i] = m0[i] + mv[i];
      // prediction
      mul(s, e.A, U, AU);
      mul(s, S, AU, bar_Ae);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) bar_Ae[i * n + j] = 2 * bar_Ae[i * n + j] + r[i] * m1[j];
      mul(s, S, e.A, x);
      mul_tn(s, e.A, x, bar_U);
      apply_t(s, e.A, r, bar_m);
      // update
      for (int i = 0; i < n; ++i) {
        bar_p[i] = (m0[i] + mv[i]) / 2;
        bar_m[i] += p[i] / 2;
        bar_eta[i] = m0[i] / 2;
      }
      apply(s, U, bar_m, v);
      for (int i = 0; i < n; ++i) bar_p[i] += v[i];
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          bar_U[i * n + j] += (bar_m[i] * p[j] + p[i] * bar_m[j]) / 2;
      for (int i = 0; i < n; ++i) bar_eta[i] += bar_p[i];
      mul(s, U, bar_U, x);
      mul(s, x, U, bar_J);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          bar_J[i * n + j] = -bar_J[i * n + j] - U[i * n + j] / 2 -
                             (bar_p[i] * m0[j] + m0[i] * bar_p[j]) / 2;
      symmetrise(s, bar_J);
      // absorption
      apply(s, e.A0, bar_eta, bar_right);
      double* dl = d_linear + m * 2 * d;
      double* dp = d_precision + m * 4 * d * d;
      if (e.on_left_only && skip_sites) {
        std::memcpy(bar_A, bar_Ae, sizeof(double) * nn);
        store_matrix(bar_A, n, d, d, d_A + m * d * d, d);
        store_matrix(S, n, d, d, d_Q + m * d * d, d);
        continue;
      }
      if (e.on_left_only) std::memset(e.G, 0, sizeof(double) * nn);
      std::memcpy(bar_A, bar_Ae, sizeof(double) * nn);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) bar_A[i * n + j] += e.right[i] * bar_eta[j];
      apply(s, e.G, bar_eta, bar_moved);
      for (int i = 0; i < n; ++i) bar_moved[i] = r[i] - bar_moved[i] + e.right[i] / 2;
      for (int i = 0; i < n; ++i) bar_right[i] += e.b[i] / 2;
      apply(s, e.C, bar_moved, v);
      for (int i = 0; i < n; ++i) bar_right[i] += v[i];
      // of C: S − G J̄ Gᵀ − Āₑ Gᵀ + moved̄ rightᵀ, symmetrised
      mul(s, e.G, bar_J, x);
      for (int i = 0; i < nn; ++i) y[i] = x[i] + bar_Ae[i];
      mul_nt(s, y, e.G, bar_C, work);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          bar_C[i * n + j] = S[i * n + j] - bar_C[i * n + j] + bar_moved[i] * e.right[j];
      symmetrise(s, bar_C);
      // of G: −2 C G J̄ − moved ηᵀ − C Āₑ
      for (int i = 0; i < nn; ++i) y[i] = 2 * x[i] + bar_Ae[i];
      mul(s, e.C, y, bar_G);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          bar_G[i * n + j] = -bar_G[i * n + j] - e.b[i] * bar_eta[j];
      // K = B A with B = b + Aᵀc/2 and K̄ = 2 J̄: bᵀ + cA/2 = Bᵀ
      for (int i = 0; i < nn; ++i) bar_J[i] *= 2;
      mul(s, e.c, e.A0, y);
      for (int i = 0; i < nn; ++i) x[i] = e.b_t[i] + y[i] / 2;
      mul(s, x, bar_J, y);
      for (int i = 0; i < nn; ++i) bar_A[i] += y[i];
      mul_nt(s, bar_J, e.A0, bar_b, work);  // B̄ = K̄ Aᵀ
      mul_nt(s, e.c, bar_b, y, work);       // c B̄ᵀ
      for (int i = 0; i < nn; ++i) bar_A[i] += y[i] / 2;
      mul(s, e.A0, bar_b, bar_c);
      for (int i = 0; i < nn; ++i) bar_c[i] /= 2;
      // G = bᵀ + cA
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) bar_b[i * n + j] += bar_G[j * n + i];
      mul_nt(s, bar_G, e.A0, y, work);
      for (int i = 0; i < nn; ++i) bar_c[i] += y[i];
      mul(s, e.c, bar_G, y);
      for (int i = 0; i < nn; ++i) bar_A[i] += y[i];
      // C = tilt(Q, c): R = I − C c
      mul(s, e.C, e.c, keep);
      for (int i = 0; i < nn; ++i) keep[i] = -keep[i];
      for (int i = 0; i < n; ++i) keep[i * n + i] += 1;
      mul(s, bar_C, keep, x);
      mul_tn(s, keep, x, y);
      mul(s, e.c, keep, x);
      symmetrise(s, x);
      for (int i = 0; i < nn; ++i) y[i] -= x[i] / 2;
      symmetrise(s, y);
      store_matrix(bar_A, n, d, d, d_A + m * d * d, d);
      store_matrix(y, n, d, d, d_Q + m * d * d, d);
      if (skip_sites) continue;
      mul(s, e.C, bar_C, x);
      mul(s, x, e.C, y);
      for (int i = 0; i < nn; ++i) bar_c[i] -= y[i] + e.C[i] / 2;
      symmetrise(s, bar_c);
      for (int i = 0; i < d; ++i) {
        dl[i] = bar_eta[i];
        dl[d + i] = bar_right[i];
        for (int j = 0; j < d; ++j) {
          dp[i * 2 * d + j] = bar_J[i * n + j] / 2;
          dp[i * 2 * d + d + j] = bar_b[i * n + j];
          dp[(d + i) * 2 * d + j] = 0;  // the mirror of the block above is not read
          dp[(d + i) * 2 * d + d + j] = bar_c[i * n + j];
        }
      }
    }
  }

  bool skip_sites = false;
};

// Joint samples of the states, drawn from the last to the first.
struct Samples {
  Chain chain;
  int64_t count;
  const double* white;  // intervals × samples × d
  double* states;       // samples × (intervals − 1) × d

  template <int N>
  void run(Dim<N> s) const {
    const int d = chain.d, n = s.n();
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
