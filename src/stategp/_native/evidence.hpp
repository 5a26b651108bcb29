// The evidence of scalar observations, one at each state, and its derivatives: the recursions of
// chain/_evidence.py, with three savings.
//
// - The parts of a sum of kernels are independent a priori: A and Q have blocks on their diagonal,
//   and what lies outside of them is neither multiplied nor differentiated (steps.hpp).
// - Steps of equal length share A and Q.
// - Steady state: where steps and precisions stay the same, the covariances stand still to rounding
//   after a while, and from then on only the means move. On the way back the same holds for the
//   information N that later observations have, in D = ½(r rᵀ − N).
//
// Memory is bounded: the way back needs the moments of every state, which are computed again from
// those at the beginnings of stretches, or of pieces where only means move. Moments of up to four
// dimensions live in registers.
#pragma once

#include "steps.hpp"

namespace stategp {

struct Series {
  int64_t states;
  int d;
  const double* h;      // d
  const double* value;  // states
  const double* precision;
};

struct Derivatives {
  StepDerivatives steps;
  double* h;  // or nothing, if not wanted
  double* value;
  double* precision;
};

// kFirst: f is the first component of the state. N is up to four, or rounded up to a multiple of it.
template <int N, bool kFirst>
class Evidence {
  static_assert(N <= 4 || N % 4 == 0);

 public:
  Evidence(Dim<N> s, const Series& series, const StepTable& table, bool steady, bool back,
           bool emission)
      : s_(s), series_(series), d_(series.d), n_(s.n()), nn_(n_ * n_), steady_(steady),
        back_(back), emission_(emission), count_(seen(series)), steps_(table, n_, count_, back),
        which_(table.which), room_(11 * size_t(nn_) + 16 * n_) {
    for (double** vector : {&zero_, &h_, &m_, &v_, &g_, &gain_, &xh_, &r_, &u_, &largest_, &root_, &dh_})
      *vector = room_.take(n_);
    for (double** matrix : {&P_, &T_, &X_, &Z_, &N_, &Y_, &last_look_})
      *matrix = room_.take(nn_);
    load_vector(series.h, d_, n_, h_);
    for (int i = 0; i < d_; ++i)
      if (h_[i] != 0) picks_.push_back(i);
    if (back_) {
      surprise_.resize(count_);
      variance_.resize(count_);
      shrink_.resize(count_);
      memory_.resize(kept_size() * std::min(count_, steps_.stretch()));
    }
  }

  // log evidence and what rounding may have cost.
  void forward(double* log_density, double* rounding) {
    int64_t k = 0;
    while (k < count_) {
      checkpoint(k, false);
      const int64_t end = std::min(count_, k + steps_.stretch());
      steps_.load(k, end);
      bool still = false;
      while (k < end && !still) {
        const int64_t begin = k;
        k = even(begin, end);
        const bool repeated = k - begin == kLook;
        if (repeated) std::memcpy(last_look_, P_, sizeof(double) * nn_);
        advance<false>(begin, k);
        still = repeated && stands_still(n_, P_, last_look_);
      }
      segments_.back().end = k;
      if (still && k < count_ && repeats(k)) {
        checkpoint(k, true);
        k = glide(k);
        segments_.back().end = k;
      }
    }
    *log_density = (logs_ + std::log(product_) - squares_) / 2;
    *rounding = kEps * lost_;
  }

  void backward(const Derivatives& out) {
    for (int64_t k = count_; k < series_.states; ++k) out.value[k] = out.precision[k] = 0;
    for (size_t s = segments_.size(); s-- > 0;) {
      const Segment& segment = segments_[s];
      std::memcpy(P_, starts_.data() + segment.place, sizeof(double) * nn_);
      std::memcpy(m_, starts_.data() + segment.place + nn_, sizeof(double) * n_);
      if (segment.frozen) {
        steps_.load(segment.begin, segment.begin + 1);
        back_frozen(segment, out);
      } else {
        steps_.load(segment.begin, segment.end);
        advance<true>(segment.begin, segment.end);
        retreat(segment, out);
      }
      steps_.leave(out.steps);
    }
    steps_.finish(out.steps);
    if (emission_) std::memcpy(out.h, dh_, sizeof(double) * d_);
  }

 private:
  static constexpr bool kTiny = N > 0 && N <= 4;
  static constexpr int64_t kPiece = 128;  // steady states whose means are computed again together
  static constexpr int kNear = kTiny ? N * N : 1, kClose = kTiny ? N : 1;

  struct Segment {
    int64_t begin, end;
    bool frozen;
    size_t place;  // of the moments at its beginning; means at those of its pieces follow
  };
  // What the way back needs of a state.
  struct Kept {
    double *PA, *m, *g;  // P Aᵀ and m before the step, covariance of the state and f after it
    double *predicted, *predicted_mean;
  };

  // Beyond the last observation nothing is seen.
  static int64_t seen(const Series& series) {
    int64_t count = series.states;
    while (count > 0 && series.precision[count - 1] == 0) --count;
    return count;
  }

  int size() const {
    if constexpr (N > 0)
      return N;
    else
      return n_;
  }

  size_t kept_size() const {
    return size_t(nn_) + 2 * n_ + (emission_ ? size_t(nn_) + n_ : 0);
  }
  Kept kept(int64_t offset) {
    double* base = memory_.data() + offset * kept_size();
    return {base, base + nn_, base + nn_ + n_, base + nn_ + 2 * n_, base + 2 * nn_ + 2 * n_};
  }

  void checkpoint(int64_t begin, bool frozen) {
    if (!back_) starts_.clear(), segments_.clear();
    segments_.push_back({begin, begin, frozen, starts_.size()});
    starts_.insert(starts_.end(), P_, P_ + nn_);
    starts_.insert(starts_.end(), m_, m_ + n_);
    if (frozen) starts_.insert(starts_.end(), Z_, Z_ + nn_);  // the predicted covariance
  }

  bool repeats(int64_t k) const {
    return k > 0 && which_[k] == which_[k - 1] && series_.precision[k] == series_.precision[k - 1];
  }

  // The end of the states that are next: all up to the first that repeats the one before, or, from
  // such a state on, those that do, but not more than after which to look.
  int64_t even(int64_t begin, int64_t end) const {
    if (!steady_) return end;
    int64_t k = begin + 1;
    if (repeats(begin)) {
      end = std::min(end, begin + kLook);
      while (k < end && repeats(k)) ++k;
    } else {
      while (k < end && !repeats(k)) ++k;
    }
    return k;
  }

  // out = A in, or Aᵀ in, plus `added` if there is any
  template <bool kTransposed = false>
  void times_blocks(const double* __restrict A, const double* __restrict in,
                    double* __restrict out, const double* __restrict added = nullptr) const {
    const int n = size();
    const int* __restrict from = (kTransposed ? steps_.low : steps_.first).data();
    const int* __restrict to = (kTransposed ? steps_.until : steps_.high).data();
    for (int i = 0; i < n; ++i) {
      const double* __restrict start = added ? added + i * n : zero_;
      if constexpr (!kTiny && N > 0) {
        Four row[N / 4];
        for (int j = 0; j < N / 4; ++j) row[j] = four(start + 4 * j);
        for (int k = from[i]; k < to[i]; ++k) {
          const double factor = kTransposed ? A[k * n + i] : A[i * n + k];
          for (int j = 0; j < N / 4; ++j) row[j] += factor * four(in + k * n + 4 * j);
        }
        for (int j = 0; j < N / 4; ++j) four(out + i * n + 4 * j) = row[j];
      } else {
        std::memcpy(out + i * n, start, sizeof(double) * n);
        for (int k = from[i]; k < to[i]; ++k)
          add_scaled(s_, kTransposed ? A[k * n + i] : A[i * n + k], in + k * n, out + i * n);
      }
    }
  }

  // C h for a symmetric C
  void times_emission(const double* __restrict C, double* __restrict out) const {
    const int n = size();
    if constexpr (kFirst) {
      for (int i = 0; i < n; ++i) out[i] = C[i];
    } else if constexpr (kTiny) {
      for (int i = 0; i < n; ++i) {
        out[i] = 0;
        for (int k = 0; k < n; ++k) out[i] += C[i * n + k] * h_[k];
      }
    } else {
      for (int i = 0; i < n; ++i) out[i] = 0;
      for (int k : picks_) add_scaled(s_, h_[k], C + k * n, out);
    }
  }

  // h A
  void times_rows(const double* __restrict A, double* __restrict out) const {
    const int n = size();
    for (int i = 0; i < n; ++i) out[i] = 0;
    for (int k : picks_)
      for (int i = 0; i < n; ++i) out[i] += h_[k] * A[k * n + i];
  }

  double on_emission(const double* __restrict vector) const {
    if constexpr (kFirst) {
      return vector[0];
    } else if constexpr (kTiny) {
      return dot(s_, vector, h_);
    } else {
      double sum = 0;
      for (int k : picks_) sum += h_[k] * vector[k];
      return sum;
    }
  }

  // From the moments before the step to state `begin` to those after the observation of state
  // `end` − 1.
  template <bool kKeep>
  void advance(int64_t begin, int64_t end) {
    const int n = size();
    double near[4][kNear] = {}, close[5][kClose] = {};
    double* __restrict P = kTiny ? near[0] : P_;
    double* __restrict T = kTiny ? near[1] : T_;
    double* __restrict X = kTiny ? near[2] : X_;
    double* __restrict Z = kTiny ? near[3] : Z_;
    double* __restrict m = kTiny ? close[0] : m_;
    double* __restrict v = kTiny ? close[1] : v_;
    double* __restrict g = kTiny ? close[2] : g_;
    double* __restrict gain = kTiny ? close[3] : gain_;
    double* __restrict xh = kTiny ? close[4] : xh_;
    if constexpr (kTiny) {
      for (int i = 0; i < N * N; ++i) P[i] = P_[i];
      for (int i = 0; i < N; ++i) m[i] = m_[i];
    }
    for (int64_t k = begin; k < end; ++k) {
      const double* __restrict A = steps_.A(k);
      const double* __restrict Q = steps_.Q(k);
      [[maybe_unused]] Kept keep{};
      if constexpr (kKeep) {
        keep = kept(k - begin);
        for (int i = 0; i < n; ++i) keep.m[i] = m[i];
      }
      if constexpr (kTiny) {
        for (int i = 0; i < N; ++i)
          for (int j = 0; j < N; ++j) {
            double sum = 0;
            for (int l = 0; l < N; ++l) sum += A[i * N + l] * P[l * N + j];
            T[i * N + j] = sum;
            if constexpr (kKeep) keep.PA[j * N + i] = sum;
          }
        for (int i = 0; i < N; ++i) {
          v[i] = 0;
          for (int l = 0; l < N; ++l) v[i] += A[i * N + l] * m[l];
          for (int j = i; j < N; ++j) {
            double sum = Q[i * N + j];
            for (int l = 0; l < N; ++l) sum += T[i * N + l] * A[j * N + l];
            Z[i * N + j] = Z[j * N + i] = sum;
          }
        }
      } else {
        double* __restrict PA = kKeep ? keep.PA : X;
        times_blocks(A, P, T);
        transpose(s_, T, PA);
        times_blocks(A, PA, Z, Q);
        mirror(s_, Z);
        carry_mean(A, m, v);
      }
      if constexpr (kKeep)
        if (emission_) {
          for (int i = 0; i < n * n; ++i) keep.predicted[i] = Z[i];
          for (int i = 0; i < n; ++i) keep.predicted_mean[i] = v[i];
        }
      const double j = series_.precision[k];
      times_emission(Z, g);
      const double variance = on_emission(g), shrink = 1 / (1 + j * variance);
      const double weight = j * shrink, e = series_.value[k] - on_emission(v);
      // Joseph's form: (I − gain hᵀ) P (I − gain hᵀ)ᵀ + gain gainᵀ / j. Its left half, X, is not
      // kept; xh = X h.
      for (int i = 0; i < n; ++i) {
        gain[i] = weight * g[i];
        m[i] = v[i] + gain[i] * e;
        v[i] = shrink * g[i];
      }
      if constexpr (kTiny) {
        for (int i = 0; i < N; ++i) {
          xh[i] = kFirst ? Z[i] - gain[i] * g[0] : 0.0;
          for (int l = 0; l < (kFirst ? 0 : N); ++l)
            xh[i] += h_[l] * (Z[i * N + l] - gain[i] * g[l]);
        }
        for (int i = 0; i < N; ++i)
          for (int l = i; l < N; ++l)
            P[i * N + l] = P[l * N + i] =
                (Z[i * N + l] - gain[i] * g[l]) - xh[i] * gain[l] + gain[i] * v[l];
      } else {
        for (int i = 0; i < n; ++i) xh[i] = 0;
        for (int l : picks_)
          for (int i = 0; i < n; i += 4)
            four(xh + i) += h_[l] * (four(Z + l * n + i) - gain[l] * four(g + i));
        for (int i = 0; i < n; ++i)
          for (int l = 0; l < n; l += 4)
            four(P + i * n + l) = (four(Z + i * n + l) - gain[i] * four(g + l)) -
                                  xh[i] * four(gain + l) + gain[i] * four(v + l);
      }
      if constexpr (kKeep) {
        for (int i = 0; i < n; ++i) keep.g[i] = g[i];
      } else {
        for (int i = 0; i < n; ++i)
          if (Z[i * n + i] > largest_[i]) grow(i, Z[i * n + i]);
        add_up(k, e, variance, shrink, through(A));
      }
    }
    if constexpr (kTiny) {
      for (int i = 0; i < N * N; ++i) P_[i] = P[i], Z_[i] = Z[i];
      for (int i = 0; i < N; ++i) m_[i] = m[i], gain_[i] = gain[i];
    }
  }

  // The largest variance there has been. If f is a component of the state, Joseph's form keeps that
  // variance to its last digits.
  void grow(int i, double variance) {
    largest_[i] = variance;
    root_[i] = picks_.size() == 1 && h_[i] != 0 ? 0.0 : std::sqrt(variance);
  }

  // |h A|, weighed by the largest standard deviations there have been, squared.
  double through(const double* __restrict A) {
    const int n = size();
    double sum = 0;
    if constexpr (kFirst) {
      for (int i = 0; i < n; ++i) sum += std::abs(A[i]) * root_[i];
    } else {
      double* __restrict row = Y_;
      times_rows(A, row);
      for (int i = 0; i < n; ++i) sum += std::abs(row[i]) * root_[i];
    }
    return sum * sum;
  }

  void add_up(int64_t k, double e, double variance, double shrink, double through) {
    const double weight = series_.precision[k] * shrink, square = weight * e * e;
    const double y = series_.value[k];
    squares_ += square;
    if (shrink > 1e-100) {
      product_ *= shrink;
      if (product_ < 1e-200) logs_ += std::log(product_), product_ = 1;
    } else {
      logs_ += std::log(shrink);
    }
    const double blurred = (variance + through) * (1 + square);
    lost_ += weight * (blurred + std::abs(e) * (std::abs(y) + std::abs(y - e)));
    if (back_) {
      surprise_[k] = e;
      variance_[k] = variance;
      shrink_[k] = shrink;
    }
  }

  // On with the covariances of the last step as long as steps and precisions repeat it.
  int64_t glide(int64_t k) {
    const double* A = steps_.A(k - 1);
    const double variance = on_emission_of(Z_), blur = through(A);
    const double shrink = 1 / (1 + series_.precision[k] * variance);
    const ByColumns<N> columns(s_, A);
    const int64_t begin = k;
    do {
      if (back_ && k > begin && (k - begin) % kPiece == 0)
        starts_.insert(starts_.end(), m_, m_ + n_);
      columns.times(m_, v_);
      const double e = series_.value[k] - on_emission(v_);
      for (int i = 0; i < n_; ++i) m_[i] = v_[i] + gain_[i] * e;
      add_up(k, e, variance, shrink, blur);
      ++k;
    } while (k < count_ && repeats(k));
    return k;
  }

  double on_emission_of(const double* covariance) {
    times_emission(covariance, g_);
    return on_emission(g_);
  }

  // v = A m
  void carry_mean(const double* __restrict A, const double* __restrict m,
                  double* __restrict v) const {
    const int n = size();
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      for (int k = steps_.first[i]; k < steps_.high[i]; ++k) sum += A[i * n + k] * m[k];
      v[i] = sum;
    }
  }

  // --- back ------------------------------------------------------------------------------------

  void retreat(const Segment& segment, const Derivatives& out) {
    double near[3][kNear], close[3][kClose];
    double* N_now = kTiny ? near[0] : N_;
    double* r = kTiny ? close[0] : r_;
    if constexpr (kTiny) {
      for (int i = 0; i < N * N; ++i) N_now[i] = N_[i];
      for (int i = 0; i < N; ++i) r[i] = r_[i];
    }
    double* Y = kTiny ? near[1] : Y_;
    double* X = kTiny ? near[2] : X_;
    double* u = kTiny ? close[1] : u_;
    double* xh = kTiny ? close[2] : xh_;
    for (int64_t k = segment.end - 1; k >= segment.begin; --k) {
      const Kept keep = kept(k - segment.begin);
      const double* __restrict A = steps_.A(k);
      times_symmetric(s_, N_now, keep.g, u);
      const double on_information = dot(s_, keep.g, u);
      observe_back(k, keep.g, r, u, on_information, keep.predicted, keep.predicted_mean, out, xh);
      inform_back(k, keep.g, u, N_now, xh);
      spread(N_now, r, Y);
      step_derivatives(k, Y, keep.PA, r, keep.m);
      pull_back(A, r, xh);
      if constexpr (kTiny) {
        for (int i = 0; i < N; ++i)
          for (int l = 0; l < N; ++l) {
            double sum = 0;
            for (int q = 0; q < N; ++q) sum += N_now[i * N + q] * A[q * N + l];
            X[i * N + l] = sum;
          }
        for (int i = 0; i < N; ++i)
          for (int l = i; l < N; ++l) {
            double sum = 0;
            for (int q = 0; q < N; ++q) sum += A[q * N + i] * X[q * N + l];
            N_now[i * N + l] = N_now[l * N + i] = sum;
          }
      } else {
        information_back(A, N_now, Y, X);
      }
    }
    if constexpr (kTiny) {
      for (int i = 0; i < N * N; ++i) N_[i] = N_now[i];
      for (int i = 0; i < N; ++i) r_[i] = r[i];
    }
  }

  // What observation k says, where on_mean = g r and on_information = g N g: slopes in its weight
  // and in f, which is what is added to r along h, and minus the slope in its value.
  struct Said {
    double on_weight, on_f;
  };
  Said said(int64_t k, double on_mean, double on_information, const Derivatives& out) const {
    const double e = surprise_[k], v = variance_[k], shrink = shrink_[k];
    const double weight = series_.precision[k] * shrink, pull = weight * e;
    const double on_weight = e * on_mean - (on_mean * on_mean - on_information) / 2 - e * e / 2;
    out.value[k] = weight * on_mean - pull;
    out.precision[k] = shrink * shrink * on_weight - v * shrink / 2;
    return {on_weight, -out.value[k]};
  }

  void along_emission(double factor, double* __restrict r) const {
    if constexpr (kFirst)
      r[0] += factor;
    else
      for (int i = 0; i < size(); ++i) r[i] += factor * h_[i];
  }

  // Derivatives of observation k, then r before it; u = N g.
  void observe_back(int64_t k, const double* __restrict g, double* __restrict r,
                    const double* __restrict u, double on_information,
                    const double* __restrict predicted, const double* __restrict predicted_mean,
                    const Derivatives& out, double* __restrict xh) {
    const int n = size();
    const double on_mean = dot(s_, r, g);
    const Said here = said(k, on_mean, on_information, out);
    if (emission_) {
      const double weight = series_.precision[k] * shrink_[k];
      const double on_variance = -weight * weight * here.on_weight - weight / 2;
      double* __restrict d_g = T_;
      for (int i = 0; i < n; ++i) d_g[i] = here.on_f * r[i] + weight * u[i];
      apply(s_, predicted, d_g, xh);
      for (int i = 0; i < n; ++i)
        dh_[i] += xh[i] + 2 * on_variance * g[i] + here.on_f * predicted_mean[i];
    }
    along_emission(here.on_f, r);
  }

  // N before observation k: (I − gain hᵀ)ᵀ N (I − gain hᵀ) + weight h hᵀ, where u = N g
  void inform_back(int64_t k, const double* __restrict g, const double* __restrict u,
                   double* __restrict N_now, double* __restrict xh) const {
    const int n = size();
    const double weight = series_.precision[k] * shrink_[k];
    if constexpr (kFirst) {
      for (int l = 0; l < n; ++l) N_now[l] -= weight * u[l];
      apply(s_, N_now, g, xh);
      for (int i = 0; i < n; ++i) N_now[i * n] -= weight * (xh[i] - (i == 0));
    } else if constexpr (kTiny) {
      for (int i = 0; i < n; ++i)
        for (int l = 0; l < n; ++l) N_now[i * n + l] -= h_[i] * (weight * u[l]);
      apply(s_, N_now, g, xh);
      for (int i = 0; i < n; ++i)
        for (int l = 0; l < n; ++l) N_now[i * n + l] -= weight * (xh[i] - h_[i]) * h_[l];
    } else {
      // Other rows change in the columns of these only.
      for (int i : picks_) {
        double* row = N_now + i * n;
        add_scaled(s_, -h_[i] * weight, u, row);
        add_scaled(s_, -weight * (dot(s_, row, g) - h_[i]), h_, row);
      }
      for (int i : picks_)
        for (int l = 0; l < n; ++l) N_now[l * n + i] = N_now[i * n + l];
    }
  }

  // Y = r rᵀ − N
  void spread(const double* __restrict N_now, const double* __restrict r,
              double* __restrict Y) const {
    const int n = size();
    if constexpr (kTiny) {
      for (int i = 0; i < n; ++i)
        for (int l = 0; l < n; ++l) Y[i * n + l] = r[i] * r[l] - N_now[i * n + l];
    } else {
      for (int i = 0; i < n; ++i)
        for (int l = 0; l < n; l += 4)
          four(Y + i * n + l) = r[i] * four(r + l) - four(N_now + i * n + l);
    }
  }

  // Adds the derivatives in A and Q of steps of the kind of step k. Y is the sum of r rᵀ − N.
  void step_derivatives(int64_t k, const double* __restrict Y, const double* __restrict PA,
                        const double* __restrict r, const double* __restrict mean) {
    const int n = size();
    double* __restrict dA = steps_.dA(k);
    double* __restrict dQ = steps_.dQ(k);
    if constexpr (kTiny) {
      for (int i = 0; i < N; ++i)
        for (int l = 0; l < N; ++l) {
          double sum = mean ? r[i] * mean[l] : 0.0;
          for (int q = 0; q < N; ++q) sum += Y[i * N + q] * PA[l * N + q];
          dA[i * N + l] += sum;
          dQ[i * N + l] += Y[i * N + l] / 2;
        }
    } else {
      for (int i = 0; i < n; ++i) {
        for (int l = steps_.low[i]; l < steps_.high[i]; ++l) dQ[i * n + l] += Y[i * n + l] / 2;
        for (int l = steps_.first[i]; l < steps_.high[i]; ++l)
          dA[i * n + l] += dot(s_, Y + i * n, PA + l * n) + (mean ? r[i] * mean[l] : 0.0);
      }
    }
  }

  // r before the step.
  void pull_back(const double* __restrict A, double* __restrict r, double* __restrict xh) {
    const int n = size();
    if constexpr (kTiny) {
      for (int l = 0; l < N; ++l) {
        xh[l] = 0;
        for (int i = 0; i < N; ++i) xh[l] += A[i * N + l] * r[i];
      }
    } else {
      for (int l = 0; l < n; ++l) {
        double sum = 0;
        for (int i = steps_.low[l]; i < steps_.until[l]; ++i) sum += A[i * n + l] * r[i];
        xh[l] = sum;
      }
    }
    for (int i = 0; i < n; ++i) r[i] = xh[i];
  }

  // N before the step.
  void information_back(const double* A, double* N_now, double* Y, double* X) const {
    times_blocks<true>(A, N_now, Y);
    transpose(s_, Y, X);
    times_blocks<true>(A, X, N_now);
    mirror(s_, N_now);
  }

  // Where covariances stand still, only means and r move, and after a while the information stands
  // still, too. Piece by piece, the last first: the means again, from that at its beginning, then r,
  // and in one go what is summed over states.
  void back_frozen(const Segment& segment, const Derivatives& out) {
    const double* predicted = starts_.data() + segment.place + nn_ + n_;
    const int64_t begin = segment.begin, length = segment.end - begin;
    const double* A = steps_.A(begin);
    const double weight = series_.precision[begin] * shrink_[begin];
    times_emission(predicted, g_);
    for (int i = 0; i < n_; ++i) gain_[i] = weight * g_[i];
    std::vector<double> PA(nn_), means(kPiece * n_);
    times_blocks(A, P_, T_);
    transpose(s_, T_, PA.data());
    const ByColumns<N> onward(s_, A), backward(s_, A, true);
    Still still(n_, kPiece);
    onward.times(g_, still.next.data());
    std::vector<double> before(N_, N_ + nn_);
    int since = 0;  // states since the last look at whether the information stands still
    bool moving = true;
    for (int64_t first = (length - 1) / kPiece * kPiece; first >= 0; first -= kPiece) {
      const int count = int(std::min<int64_t>(kPiece, length - first));
      const double* start = first ? predicted + nn_ + (first / kPiece - 1) * n_ : m_;
      std::memcpy(means.data(), start, sizeof(double) * n_);
      for (int q = 0; q + 1 < count; ++q) {
        double* __restrict next = means.data() + (q + 1) * n_;
        onward.times(next - n_, next);
        const double e = surprise_[begin + first + q];
        for (int i = 0; i < n_; ++i) next[i] += gain_[i] * e;
      }
      int q = count;
      while (moving && q > 0) {
        const double* mean = means.data() + --q * n_;
        const int64_t k = begin + first + q;
        if (emission_) onward.times(mean, v_);
        times_symmetric(s_, N_, g_, u_);
        observe_back(k, g_, r_, u_, dot(s_, g_, u_), predicted, v_, out, xh_);
        inform_back(k, g_, u_, N_, xh_);
        spread(N_, r_, Y_);
        step_derivatives(begin, Y_, PA.data(), r_, mean);
        pull_back(A, r_, xh_);
        information_back(A, N_, Y_, X_);
        if (++since < kLook) continue;
        moving = !stands_still(n_, N_, before.data());
        since = 0;
        std::memcpy(before.data(), N_, sizeof(double) * nn_);
      }
      if (q > 0) retreat_still(begin + first, q, means.data(), backward, still, out);
    }
    if (still.count == 0) return;
    // The information before the step stands still, too: carry it there once.
    times_symmetric(s_, N_, g_, u_);
    if (emission_) still_emission(still, weight, predicted, onward);
    inform_back(begin, g_, u_, N_, xh_);
    for (int i = 0; i < n_; ++i)
      for (int l = 0; l < n_; ++l) {
        const double sum = still.rr[std::min(i, l) * n_ + std::max(i, l)];
        Y_[i * n_ + l] = sum - still.count * N_[i * n_ + l];
      }
    step_derivatives(begin, Y_, PA.data(), r_, nullptr);
    double* __restrict dA = steps_.dA(begin);
    for (int i = 0; i < n_; ++i)
      for (int l = steps_.first[i]; l < steps_.high[i]; ++l) dA[i * n_ + l] += still.rm[i * n_ + l];
    std::memcpy(N_, before.data(), sizeof(double) * nn_);
  }

  // Sums over states where everything but m and r stands still.
  struct Still {
    Still(int n, int64_t piece)
        : next(n), r(piece * n), on_f(piece), rr(n * n), rm(n * n), fr(n), fm(n) {}
    std::vector<double> next;            // A g
    std::vector<double> r, on_f;         // of the states of a piece
    std::vector<double> rr, rm, fr, fm;  // r rᵀ (above the diagonal), r mᵀ, on_f r, on_f m
    double count = 0, on_weight = 0, squares = 0;  // squares: of on_f
  };

  void retreat_still(int64_t begin, int count, const double* means, const ByColumns<N>& backward,
                     Still& still, const Derivatives& out) {
    times_symmetric(s_, N_, g_, u_);
    const double on_information = dot(s_, g_, u_);
    double on_mean = dot(s_, r_, g_);
    for (int q = count - 1; q >= 0; --q) {
      const Said here = said(begin + q, on_mean, on_information, out);
      still.on_weight += here.on_weight;
      still.on_f[q] = here.on_f;
      double* __restrict row = still.r.data() + q * n_;
      for (int i = 0; i < n_; ++i) row[i] = r_[i];
      along_emission(here.on_f, row);
      on_mean = dot(s_, row, still.next.data());  // g r of the state before
      backward.times(row, r_);
    }
    still.count += count;
    const double* r = still.r.data();
    outer_sums(s_, count, r, r, [](int i) { return i; }, [&](int) { return n_; }, still.rr.data());
    outer_sums(s_, count, r, means, [&](int i) { return steps_.first[i]; },
               [&](int i) { return steps_.high[i]; }, still.rm.data());
    if (!emission_) return;
    for (int q = 0; q < count; ++q) {
      still.squares += still.on_f[q] * still.on_f[q];
      add_scaled(s_, still.on_f[q], still.r.data() + q * n_, still.fr.data());
      add_scaled(s_, still.on_f[q], means + q * n_, still.fm.data());
    }
  }

  // What `observe_back` adds up state by state; `r` were those after the observations. u = N g.
  void still_emission(const Still& still, double weight, const double* predicted,
                      const ByColumns<N>& onward) {
    const double on_variance = -weight * weight * still.on_weight - still.count * weight / 2;
    for (int i = 0; i < n_; ++i)
      T_[i] = still.fr[i] - still.squares * h_[i] + still.count * weight * u_[i];
    apply(s_, predicted, T_, xh_);
    onward.times(still.fm.data(), v_);
    for (int i = 0; i < n_; ++i) dh_[i] += xh_[i] + 2 * on_variance * g_[i] + v_[i];
  }

  Dim<N> s_;
  Series series_;
  int d_, n_, nn_;
  bool steady_, back_, emission_;
  int64_t count_;
  Steps steps_;
  const int32_t* which_;
  Room room_;
  std::vector<int> picks_;
  std::vector<double> surprise_, variance_, shrink_, starts_, memory_;
  std::vector<Segment> segments_;
  double *P_, *T_, *X_, *Z_, *N_, *Y_, *last_look_;
  double *zero_, *h_, *m_, *v_, *g_, *gain_, *xh_, *r_, *u_, *largest_, *root_, *dh_;
  double logs_ = 0, product_ = 1, squares_ = 0, lost_ = 0;
};

}  // namespace stategp
