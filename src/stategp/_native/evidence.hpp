// The evidence of scalar observations, one at each state, and its derivatives: the recursions of
// chain/_evidence.py, with three savings.
//
// - The parts of a sum of kernels are independent a priori: A and Q have blocks on their diagonal,
//   and what lies outside of them is neither multiplied nor differentiated.
// - Steps of equal length share A and Q, which are given once for each length.
// - Steady state: where steps and precisions stay the same, the covariances stand still to rounding
//   after a while, and from then on only the means move. On the way back the same holds for the
//   information N that later observations have, in D = ½(r rᵀ − N).
//
// Memory is bounded: the way back needs the moments of every state, which are computed again from
// those at the beginnings of stretches.
#pragma once

#include "small.hpp"

namespace stategp {

struct Series {
  int64_t states;
  int d;
  const double* A;       // lengths × d × d
  const double* Q;       // lengths × d × d
  const int32_t* which;  // states: the step that leads to each
  const double* h;       // d
  const double* value;   // states
  const double* precision;
  const int64_t* blocks;  // sizes of the blocks of A and Q
  int64_t block_count;
};

struct Derivatives {
  double* A;  // lengths × d × d
  double* Q;
  double* h;
  double* value;
  double* precision;
};

constexpr int kLook = 8;             // states between two looks at whether covariances stand still
constexpr double kStill = 2e-14;     // largest change of correlations over that many states
constexpr size_t kStretch = 1 << 19; // doubles that are kept for the way back

template <int N>
class Evidence {
 public:
  Evidence(Dim<N> s, const Series& series, int64_t lengths, bool steady)
      : s_(s), series_(series), d_(series.d), n_(s.n()), nn_(n_ * n_), steady_(steady),
        room_(12 * size_t(nn_) + 16 * n_), low_(n_), high_(n_) {
    int begin = 0;
    for (int64_t b = 0; b < series.block_count; ++b) {
      const int end = begin + int(series.blocks[b]);
      for (int i = begin; i < end; ++i) low_[i] = begin, high_[i] = end;
      begin = end;
    }
    for (int i = begin; i < n_; ++i) low_[i] = high_[i] = 0;
    // Beyond the last observation nothing is seen.
    count_ = series.states;
    while (count_ > 0 && series.precision[count_ - 1] == 0) --count_;
    int64_t used = 0;
    for (int64_t k = 0; k < count_; ++k) used = std::max<int64_t>(used, series.which[k] + 1);
    lengths_ = lengths;
    A_.resize(used * nn_);
    Q_.resize(used * nn_);
    for (int64_t k = 0; k < used; ++k) {
      load_matrix(series.A + k * d_ * d_, d_, d_, d_, n_, A_.data() + k * nn_);
      load_matrix(series.Q + k * d_ * d_, d_, d_, d_, n_, Q_.data() + k * nn_);
    }
    h_ = room_.take(n_);
    load_vector(series.h, d_, n_, h_);
    P_ = room_.take(nn_);
    T_ = room_.take(nn_);
    Z_ = room_.take(nn_);
    X_ = room_.take(nn_);
    last_look_ = room_.take(nn_);
    N_ = room_.take(nn_);
    Y_ = room_.take(nn_);
    sum_rr_ = room_.take(nn_);
    m_ = room_.take(n_);
    g_ = room_.take(n_);
    gain_ = room_.take(n_);
    xh_ = room_.take(n_);
    r_ = room_.take(n_);
    u_ = room_.take(n_);
    v_ = room_.take(n_);
    sum_dg_ = room_.take(n_);
  }

  // log evidence and what rounding may have cost.
  void forward(double* log_density, double* rounding) {
    surprise_.resize(count_);
    variance_.resize(count_);
    shrink_.resize(count_);
    largest_.assign(n_, 0.0);
    clear_state();
    int64_t k = 0;
    while (k < count_) {
      const int64_t begin = k;
      checkpoint(begin, false);
      const int64_t end = std::min(count_, begin + stretch());
      still_ = 0;
      while (k < end && still_ < kLook) {
        step(k, nullptr);
        ++k;
        look(k);
      }
      segments_.back().end = k;
      if (still_ >= kLook && k < count_ && repeats(k)) {
        // The last step's covariances hold from here on.
        checkpoint(k, true);
        const double variance = variance_[k - 1], shrink = shrink_[k - 1];
        const double* A = A_.data() + series_.which[k] * nn_;
        const int64_t from = k;
        while (k < count_ && (k == from || repeats(k))) {
          carry_mean(A);
          const double e = series_.value[k] - dot(s_, h_, v_);
          for (int i = 0; i < n_; ++i) m_[i] = v_[i] + gain_[i] * e;
          surprise_[k] = e;
          variance_[k] = variance;
          shrink_[k] = shrink;
          ++k;
        }
        segments_.back().end = k;
      }
    }
    add_up(log_density, rounding);
  }

  void backward(const Derivatives& out) {
    std::memset(r_, 0, sizeof(double) * n_);
    std::memset(N_, 0, sizeof(double) * nn_);
    std::memset(out.h, 0, sizeof(double) * d_);
    for (int64_t k = count_; k < series_.states; ++k) out.value[k] = out.precision[k] = 0;
    dA_.assign(A_.size(), 0.0);
    dQ_.assign(Q_.size(), 0.0);
    dh_.assign(n_, 0.0);
    for (size_t s = segments_.size(); s-- > 0;) {
      const Segment& segment = segments_[s];
      if (segment.frozen)
        back_frozen(s, out);
      else
        back_general(s, out);
    }
    const int64_t used = int64_t(A_.size()) / nn_;
    std::fill(out.A + used * d_ * d_, out.A + lengths_ * d_ * d_, 0.0);
    std::fill(out.Q + used * d_ * d_, out.Q + lengths_ * d_ * d_, 0.0);
    for (int64_t k = 0; k < used; ++k) {
      store_matrix(dA_.data() + k * nn_, n_, d_, d_, out.A + k * d_ * d_, d_);
      store_matrix(dQ_.data() + k * nn_, n_, d_, d_, out.Q + k * d_ * d_, d_);
    }
    std::memcpy(out.h, dh_.data(), sizeof(double) * d_);
  }

 private:
  struct Segment {
    int64_t begin, end;
    bool frozen;
    size_t place;  // of the moments at its beginning
  };
  // What the way back needs of a state.
  struct Kept {
    double *P, *m, *predicted, *predicted_mean;  // before the step, and before the observation
  };

  size_t kept_size() const { return 2 * size_t(nn_) + 2 * n_; }
  int64_t stretch() const { return std::max<int64_t>(16, kStretch / kept_size()); }
  Kept kept(int64_t offset) {
    double* base = memory_.data() + offset * kept_size();
    return {base, base + nn_, base + nn_ + n_, base + 2 * nn_ + n_};
  }

  void clear_state() {
    std::memset(P_, 0, sizeof(double) * nn_);
    std::memset(m_, 0, sizeof(double) * n_);
    segments_.clear();
    starts_.clear();
  }

  void checkpoint(int64_t begin, bool frozen) {
    segments_.push_back({begin, begin, frozen, starts_.size()});
    starts_.insert(starts_.end(), P_, P_ + nn_);
    starts_.insert(starts_.end(), m_, m_ + n_);
    if (frozen) starts_.insert(starts_.end(), Z_, Z_ + nn_);  // the predicted covariance
  }

  bool repeats(int64_t k) const {
    return k > 0 && series_.which[k] == series_.which[k - 1] &&
           series_.precision[k] == series_.precision[k - 1];
  }

  // Whether covariances stand still, looked at now and then. Here P_ is the state after k steps.
  void look(int64_t k) {
    if (!steady_) return;
    if (k < 2 || !repeats(k - 1)) {
      still_ = 0;
      looked_ = -1;
      return;
    }
    if (looked_ < 0) {
      looked_ = k;
      std::memcpy(last_look_, P_, sizeof(double) * nn_);
      return;
    }
    if (k - looked_ < kLook) return;
    bool still = true;
    for (int i = 0; i < d_ && still; ++i)
      for (int j = 0; j <= i && still; ++j) {
        const double change = P_[i * n_ + j] - last_look_[i * n_ + j];
        still = change * change <= kStill * kStill * P_[i * n_ + i] * P_[j * n_ + j];
      }
    still_ = still ? kLook : 0;
    looked_ = k;
    std::memcpy(last_look_, P_, sizeof(double) * nn_);
  }

  // out = A in, or Aᵀ in, A with blocks on its diagonal
  template <bool kTransposed = false>
  void times_blocks(const double* __restrict A, const double* __restrict in,
                    double* __restrict out) const {
    if constexpr (N > 0 && N <= 4) {
      product_here<kTransposed>(s_, A, in, out);
    } else {
      const int n = size();
      for (int i = 0; i < n; ++i) {
        const int low = low_[i], high = high_[i];
        double fixed[N > 0 ? N : 1];
        double* __restrict row = N > 0 ? fixed : out + i * n;
        for (int j = 0; j < n; ++j) row[j] = 0;
        for (int k = low; k < high; ++k) {
          const double factor = kTransposed ? A[k * n + i] : A[i * n + k];
          for (int j = 0; j < n; ++j) row[j] += factor * in[k * n + j];
        }
        if constexpr (N > 0)
          for (int j = 0; j < n; ++j) out[i * n + j] = row[j];
      }
    }
  }

  int size() const {
    if constexpr (N > 0)
      return N;
    else
      return n_;
  }

  // v_ = A m_
  void carry_mean(const double* __restrict A) {
    const int n = size();
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      if constexpr (N > 0 && N <= 4)
        for (int k = 0; k < N; ++k) sum += A[i * N + k] * m_[k];
      else
        for (int k = low_[i]; k < high_[i]; ++k) sum += A[i * n + k] * m_[k];
      v_[i] = sum;
    }
  }

  // From the moments after observation k − 1 to those after observation k.
  void step(int64_t k, const Kept* keep) {
    const int n = size();
    const double* __restrict A = A_.data() + series_.which[k] * nn_;
    const double* __restrict Q = Q_.data() + series_.which[k] * nn_;
    if (keep) {
      std::memcpy(keep->P, P_, sizeof(double) * nn_);
      std::memcpy(keep->m, m_, sizeof(double) * n_);
    }
    times_blocks(A, P_, T_);
    transpose(s_, T_, X_);
    times_blocks(A, X_, Z_);
    for (int i = 0; i < n; ++i)
      for (int j = i; j < n; ++j) {
        const double predicted = Z_[i * n + j] + Q[i * n + j];
        Z_[i * n + j] = predicted;
        Z_[j * n + i] = predicted;
      }
    carry_mean(A);
    if (keep) {
      std::memcpy(keep->predicted, Z_, sizeof(double) * nn_);
      std::memcpy(keep->predicted_mean, v_, sizeof(double) * n_);
    }
    const double j = series_.precision[k];
    apply(s_, Z_, h_, g_);
    const double variance = dot(s_, h_, g_);
    const double shrink = 1 / (1 + j * variance), weight = j * shrink;
    const double e = series_.value[k] - dot(s_, h_, v_);
    surprise_[k] = e;
    variance_[k] = variance;
    shrink_[k] = shrink;
    for (int i = 0; i < n; ++i) {
      largest_[i] = std::max(largest_[i], Z_[i * n + i]);
      gain_[i] = weight * g_[i];
      m_[i] = v_[i] + gain_[i] * e;
    }
    // Joseph's form: (I − gain hᵀ) P (I − gain hᵀ)ᵀ + gain gainᵀ / j
    for (int i = 0; i < n; ++i)
      for (int l = 0; l < n; ++l) X_[i * n + l] = Z_[i * n + l] - gain_[i] * g_[l];
    apply(s_, X_, h_, xh_);
    for (int i = 0; i < n; ++i)
      for (int l = i; l < n; ++l) {
        const double updated =
            X_[i * n + l] - xh_[i] * gain_[l] + gain_[i] * (shrink * g_[l]);
        P_[i * n + l] = updated;
        P_[l * n + i] = updated;
      }
  }

  void add_up(double* log_density, double* rounding) {
    double logs = 0, product = 1, squares = 0;
    const int n = n_;
    // |h A| for every length of a step, weighed by the largest standard deviations there were.
    const int64_t lengths = int64_t(A_.size()) / nn_;
    int used = 0;
    for (int i = 0; i < n; ++i) used += h_[i] != 0;
    std::vector<double> through(lengths);
    for (int64_t l = 0; l < lengths; ++l) {
      const double* A = A_.data() + l * nn_;
      double sum = 0;
      for (int i = 0; i < n; ++i) {
        if (used == 1 && h_[i] != 0) continue;
        double entry = 0;
        for (int k = low_[i]; k < high_[i]; ++k) entry += h_[k] * A[k * n + i];
        sum += std::abs(entry) * std::sqrt(largest_[i]);
      }
      through[l] = sum * sum;
    }
    double lost = 0;
    for (int64_t k = 0; k < count_; ++k) {
      const double shrink = shrink_[k], e = surprise_[k], y = series_.value[k];
      const double weight = series_.precision[k] * shrink, square = weight * e * e;
      squares += square;
      if (shrink > 1e-100) {
        product *= shrink;
        if (product < 1e-200) logs += std::log(product), product = 1;
      } else {
        logs += std::log(shrink);
      }
      const double blurred = (variance_[k] + through[series_.which[k]]) * (1 + square);
      lost += weight * (blurred + std::abs(e) * (std::abs(y) + std::abs(y - e)));
    }
    *log_density = (logs + std::log(product) - squares) / 2;
    *rounding = kEps * lost;
  }

  // --- back ------------------------------------------------------------------------------------

  void resume(const Segment& segment) {
    const double* start = starts_.data() + segment.place;
    std::memcpy(P_, start, sizeof(double) * nn_);
    std::memcpy(m_, start + nn_, sizeof(double) * n_);
  }

  void back_general(size_t number, const Derivatives& out) {
    const Segment segment = segments_[number];
    resume(segment);
    memory_.resize((segment.end - segment.begin) * kept_size());
    for (int64_t k = segment.begin; k < segment.end; ++k) {
      const Kept keep = kept(k - segment.begin);
      step(k, &keep);
    }
    for (int64_t k = segment.end - 1; k >= segment.begin; --k) {
      const Kept keep = kept(k - segment.begin);
      const double* A = A_.data() + series_.which[k] * nn_;
      apply(s_, keep.predicted, h_, g_);
      observe_back(k, keep.predicted_mean, out);
      for (int i = 0; i < n_; ++i) u_[i] = sum_dg_[i];
      apply(s_, keep.predicted, u_, xh_);
      for (int i = 0; i < n_; ++i) dh_[i] += xh_[i];
      times_blocks(A, keep.P, T_);
      step_derivatives(k, T_, keep.m, 1.0, nullptr);
      through_step(A, true);
    }
  }

  // Derivatives of observation k, then r and N before it. Leaves in sum_dg_ what multiplies the
  // predicted covariance in the derivative of h.
  void observe_back(int64_t k, const double* __restrict predicted_mean, const Derivatives& out,
                    bool information = true) {
    const int n = size();
    const double e = surprise_[k], v = variance_[k], shrink = shrink_[k];
    const double weight = series_.precision[k] * shrink, pull = weight * e;
    const double on_mean = dot(s_, r_, g_);
    if (information) {
      apply(s_, N_, g_, u_);
      on_information_ = dot(s_, g_, u_);
    }
    const double d_weight = e * on_mean - (on_mean * on_mean - on_information_) / 2 - e * e / 2;
    const double d_value = weight * on_mean - pull;
    const double d_variance = -weight * weight * d_weight - weight / 2;
    out.value[k] = d_value;
    out.precision[k] = shrink * shrink * d_weight - v * shrink / 2;
    for (int i = 0; i < n; ++i) {
      sum_dg_[i] = pull * r_[i] - weight * (r_[i] * on_mean - u_[i]);
      dh_[i] += 2 * d_variance * g_[i] - d_value * predicted_mean[i];
      r_[i] += (pull - weight * on_mean) * h_[i];
    }
    if (!information) return;
    // N before it: (I − gain hᵀ)ᵀ N (I − gain hᵀ) + weight h hᵀ, where u = N g
    for (int i = 0; i < n; ++i)
      for (int l = 0; l < n; ++l) Y_[i * n + l] = N_[i * n + l] - h_[i] * (weight * u_[l]);
    apply(s_, Y_, g_, xh_);
    for (int i = 0; i < n; ++i)
      for (int l = 0; l < n; ++l)
        N_[i * n + l] = Y_[i * n + l] - weight * (xh_[i] - h_[i]) * h_[l];
  }

  // Adds the derivatives in A and Q of `times` steps of the same kind, T = A P before the step. With
  // `squares`, Σ r rᵀ stands in for r rᵀ.
  void step_derivatives(int64_t k, const double* __restrict T, const double* __restrict mean,
                        double times, const double* __restrict squares) {
    const int n = size();
    double* __restrict dA = dA_.data() + series_.which[k] * nn_;
    double* __restrict dQ = dQ_.data() + series_.which[k] * nn_;
    if (squares) {
      for (int i = 0; i < nn_; ++i) Y_[i] = squares[i] - times * N_[i];
    } else {
      for (int i = 0; i < n; ++i)
        for (int l = 0; l < n; ++l) Y_[i * n + l] = r_[i] * r_[l] - N_[i * n + l];
    }
    for (int i = 0; i < n; ++i) {
      const int low = low_[i], high = high_[i];
      for (int l = low; l < high; ++l) dQ[i * n + l] += Y_[i * n + l] / 2;
      for (int q = 0; q < n; ++q) {
        const double factor = Y_[i * n + q];
        for (int l = low; l < high; ++l) dA[i * n + l] += factor * T[q * n + l];
      }
      if (mean)
        for (int l = low; l < high; ++l) dA[i * n + l] += r_[i] * mean[l];
    }
  }

  // r and N before the step.
  void through_step(const double* __restrict A, bool information) {
    const int n = size();
    for (int i = 0; i < n; ++i) xh_[i] = 0;
    for (int i = 0; i < n; ++i)
      for (int l = low_[i]; l < high_[i]; ++l) xh_[l] += A[i * n + l] * r_[i];
    for (int i = 0; i < n; ++i) r_[i] = xh_[i];
    if (!information) return;
    times_blocks<true>(A, N_, Y_);
    transpose(s_, Y_, X_);
    times_blocks<true>(A, X_, N_);
    symmetrise(s_, N_);
  }

  void back_frozen(size_t number, const Derivatives& out) {
    const Segment segment = segments_[number];
    resume(segment);
    const double* predicted = starts_.data() + segment.place + nn_ + n_;
    const int64_t begin = segment.begin, length = segment.end - begin;
    const double* A = A_.data() + series_.which[begin] * nn_;
    const double weight = series_.precision[begin] * shrink_[begin];
    apply(s_, predicted, h_, g_);
    for (int i = 0; i < n_; ++i) gain_[i] = weight * g_[i];
    std::vector<double> frozen_P(P_, P_ + nn_);
    std::vector<double> AP(nn_);
    times_blocks(A, frozen_P.data(), AP.data());
    // Means, from the beginning in pieces that are kept.
    std::vector<double> means(size_t(length) * 2 * n_);
    for (int64_t k = 0; k < length; ++k) {
      double* at = means.data() + k * 2 * n_;
      std::memcpy(at, m_, sizeof(double) * n_);
      carry_mean(A);
      std::memcpy(at + n_, v_, sizeof(double) * n_);
      for (int i = 0; i < n_; ++i) m_[i] = v_[i] + gain_[i] * surprise_[begin + k];
    }
    std::vector<double> sum_dg(n_, 0.0), before(N_, N_ + nn_);
    std::memset(sum_rr_, 0, sizeof(double) * nn_);
    int64_t still_since = -1, looked = length;
    double still_count = 0;
    for (int64_t k = length - 1; k >= 0; --k) {
      const double* at = means.data() + k * 2 * n_;
      const bool moving = still_since < 0;
      observe_back(begin + k, at + n_, out, moving);
      for (int i = 0; i < n_; ++i) sum_dg[i] += sum_dg_[i];
      if (moving) {
        step_derivatives(begin + k, AP.data(), at, 1.0, nullptr);
        through_step(A, true);
        if (looked - k >= kLook) {
          bool still = true;
          for (int i = 0; i < d_ && still; ++i)
            for (int j = 0; j <= i && still; ++j) {
              const double change = N_[i * n_ + j] - before[i * n_ + j];
              still = change * change <=
                      kStill * kStill * std::abs(N_[i * n_ + i] * N_[j * n_ + j]);
            }
          if (still) {
            still_since = k;
            apply(s_, N_, g_, u_);
            on_information_ = dot(s_, g_, u_);
          }
          looked = k;
          std::memcpy(before.data(), N_, sizeof(double) * nn_);
        }
      } else {
        const int n = size();
        double* __restrict dA = dA_.data() + series_.which[begin] * nn_;
        still_count += 1;
        for (int i = 0; i < n; ++i) {
          const double factor = r_[i];
          for (int l = 0; l < n; ++l) sum_rr_[i * n + l] += factor * r_[l];
          for (int l = low_[i]; l < high_[i]; ++l) dA[i * n + l] += factor * at[l];
        }
        through_step(A, false);
      }
    }
    if (still_count > 0) {
      // The information before the step stands still, too: carry it there once.
      std::vector<double> kept_N(N_, N_ + nn_);
      for (int i = 0; i < n_; ++i)
        for (int l = 0; l < n_; ++l) Y_[i * n_ + l] = N_[i * n_ + l] - h_[i] * (weight * u_[l]);
      apply(s_, Y_, g_, xh_);
      for (int i = 0; i < n_; ++i)
        for (int l = 0; l < n_; ++l)
          N_[i * n_ + l] = Y_[i * n_ + l] - weight * (xh_[i] - h_[i]) * h_[l];
      step_derivatives(begin, AP.data(), nullptr, still_count, sum_rr_);
      std::memcpy(N_, kept_N.data(), sizeof(double) * nn_);
    }
    apply(s_, predicted, sum_dg.data(), xh_);
    for (int i = 0; i < n_; ++i) dh_[i] += xh_[i];
  }

  Dim<N> s_;
  Series series_;
  int d_, n_, nn_;
  bool steady_;
  Room room_;
  std::vector<int> low_, high_;
  std::vector<double> A_, Q_, dA_, dQ_, dh_;
  std::vector<double> surprise_, variance_, shrink_, largest_, starts_, memory_;
  std::vector<Segment> segments_;
  double *h_, *P_, *T_, *Z_, *X_, *last_look_, *N_, *Y_, *sum_rr_;
  double *m_, *g_, *gain_, *xh_, *r_, *u_, *v_, *sum_dg_;
  int64_t count_ = 0, lengths_ = 0, looked_ = -1;
  int still_ = 0;
  double on_information_ = 0;
};

}  // namespace stategp
