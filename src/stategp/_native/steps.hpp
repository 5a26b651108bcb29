// The steps between the states of a series: A and Q of each, and what derivatives in them say about
// the numbers they are made of.
//
// The state is a stack of independent blocks. A block is either given, as matrices for every length
// of a step, or has a closed form: a Matérn process of order p (none for p = 0, a constant), which
// may turn with frequency ω, or an oscillator (oscillator.hpp). With r = λΔ, the state of
// kernels/_matern.py and γ the regularised lower incomplete gamma function,
//
//     A = e⁻ʳ r^(j−i) / (j−i)! ⊗ rotation by ωΔ          Q = σ² U_ij γ(2p−1−i−j, 2r) ⊗ I
//
// Steps lie in slots: one for each length if those are few, else one for each state of a stretch,
// which then are computed anew for the next stretch. Closed forms are computed for four slots side
// by side.
#pragma once

#include "oscillator.hpp"
#include "small.hpp"

namespace stategp {

struct StepTable {
  int64_t lengths, entries, forms;  // how many; entries of all given blocks, row by row
  const double* A;                  // lengths × entries
  const double* Q;
  const double* length;     // lengths; the first is a step from nothing
  const double* parameters;  // forms × (variance, rate, frequency)
  const int64_t* sizes;      // of the blocks
  const int64_t* kinds;      // of the blocks: −1 if given, else 2 · order + whether it turns,
                             // or that of an oscillator
  int64_t blocks;
  const int32_t* which;  // states: the length of the step that leads to each
};

struct StepDerivatives {
  double* A;  // lengths × entries
  double* Q;
  double* length;
  double* parameters;
};

constexpr int kOrders = 4;               // the highest order of a Matérn process
constexpr int kOscillator = 2 * (kOrders + 1);  // the kind of an oscillator
constexpr double kFarthest = 800;        // e^-r is zero from there on
constexpr double kSwitch = 2;            // below: series; above: one minus the upper tail
constexpr int kTerms = 22;               // of that series
constexpr size_t kSlots = size_t(1) << 15;  // doubles in the matrices of a stretch, about

typedef int64_t FourBits __attribute__((vector_size(32), aligned(8), may_alias));

// e^y for −800 ≤ y ≤ 0; zero below −707.
inline Four exp_below(Four y) {
  constexpr double kShift = 0x1.8p52;  // rounds to whole numbers, and leaves them in the last bits
  const Four shifted = y * 0x1.71547652b82fep0 + kShift, whole = shifted - kShift;
  const Four f = (y - whole * 0x1.62e42fefa0000p-1) - whole * 0x1.cf79abc9e3b39p-40;
  constexpr double kTaylor[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                1.0 / 40320,     1.0 / 5040,     1.0 / 720,     1.0 / 120,
                                1.0 / 24,        1.0 / 6,        0.5,           1,
                                1};
  Four sum = f * (1.0 / 6227020800);
  for (int k = 0; k < 12; ++k) sum = (sum + kTaylor[k]) * f;
  sum += kTaylor[12];
  const Four scaled = Four(FourBits(sum) + (FourBits(shifted) << 52));
  return y < Four{} - 707.0 ? Four{} : scaled;
}

// What A and Q of a Matérn process of order P are made of, for slots side by side.
template <int P>
struct Matern {
  static constexpr int kSize = P > 0 ? P : 1;
  static constexpr int kGammas = 2 * kSize - 1;
  static constexpr int kRows = kSize + kGammas;  // e⁻ʳ rᵐ/m!, then γ(1), γ(2), …

  // U: P₀ of unit variance
  static double unit(int i, int j) {
    const auto factorial = [](int n) {
      double product = 1;
      for (int k = 2; k <= n; ++k) product *= k;
      return product;
    };
    const auto entry = [&](int a, int b) {
      return factorial(2 * kSize - 2 - a - b) /
             (std::ldexp(1.0, 2 * kSize - 1 - a - b) * factorial(kSize - 1 - a) *
              factorial(kSize - 1 - b));
    };
    return entry(i, j) / entry(0, 0);
  }

  // Lengths and rows of the table have room for a multiple of four.
  static void compute(const double* __restrict length, double rate, int64_t count,
                      double* __restrict table, int64_t stride) {
    if constexpr (P == 0) {
      for (int64_t s = 0; s < count; ++s) table[s] = 1, table[stride + s] = 0;
    } else {
      for (int64_t s = 0; s < count; s += 4) {
        const Four far = Four{} + kFarthest, distance = rate * four(length + s);
        const Four r = distance > far ? far : distance, x = 2.0 * r;
        const Four decay = exp_below(-r);
        Four power = decay;
        four(table + s) = power;
        for (int m = 1; m < P; ++m)
          four(table + m * stride + s) = power = power * r * (1.0 / m);
        // e⁻ˣ xᵏ/k!
        Four term[kGammas], all = decay * decay;
        term[0] = all;
        for (int k = 1; k < kGammas; ++k) all += term[k] = term[k - 1] * x * (1.0 / k);
        const Four end = Four{} + kSwitch, small = x > end ? end : x;
        Four series = Four{} + 1.0;
        for (int k = kTerms; k > 0; --k) series = 1.0 + series * (small * (1.0 / (kGammas + k)));
        const Four below = term[kGammas - 1] * (small * (1.0 / kGammas)) * series;
        Four gamma = x < end ? below : 1.0 - all;
        four(table + (P + kGammas - 1) * stride + s) = gamma;
        for (int a = kGammas - 1; a > 0; --a)
          four(table + (P + a - 1) * stride + s) = gamma = gamma + term[a];
      }
    }
  }
};

template <typename Work>
void with_order(int order, const Work& work) {
  switch (order) {
    case 0: return work(Matern<0>());
    case 1: return work(Matern<1>());
    case 2: return work(Matern<2>());
    case 3: return work(Matern<3>());
    default: return work(Matern<4>());
  }
}

class Steps {
 public:
  // For matrices of n × n; `back` if derivatives are wanted, too.
  Steps(const StepTable& table, int n, int64_t states, bool back)
      : low(n, 0), high(n, 0), first(n, 0), until(n, 0), table_(table), n_(n), nn_(n * n) {
    int begin = 0;
    size_t entries = 0, forms = 0, rows = 0;
    for (int64_t b = 0; b < table.blocks; ++b) {
      const int size = int(table.sizes[b]), kind = int(table.kinds[b]), turn = kind & 1;
      Block block{begin, size, kind < 0 ? -1 : kind / 2, kind > 0 && turn, entries, rows};
      for (int i = begin; i < begin + size; ++i) {
        low[i] = first[i] = begin, high[i] = until[i] = begin + size;
        if (kind < 0 || block.swings()) continue;
        first[i] = block.turns ? i - (i - begin) % 2 : i;
        until[i] = first[i] + (block.turns ? 2 : 1);
      }
      if (kind < 0) {
        entries += size_t(size) * size;
      } else {
        block.place = forms++;
        block.driven = swings_.size();
        if (block.swings())
          swings_.emplace_back();
        else
          with_order(block.order,
                     [&](auto m) { rows += decltype(m)::kRows + (block.turns ? 2 : 0); });
      }
      blocks_.push_back(block);
      begin += size;
    }
    int64_t used = 0;
    for (int64_t k = 0; k < states; ++k) used = std::max<int64_t>(used, table.which[k] + 1);
    const int64_t fitting = int64_t(kSlots) / (2 * nn_);
    stretch_ = std::max<int64_t>(64, std::min<int64_t>(1024, fitting));
    few_ = used <= stretch_;
    capacity_ = few_ ? used : std::min(stretch_, states);
    capacity_ = (capacity_ + 3) / 4 * 4;
    A_.assign(capacity_ * nn_, 0.0);
    Q_.assign(capacity_ * nn_, 0.0);
    if (back) {
      dA_.assign(capacity_ * nn_, 0.0);
      dQ_.assign(capacity_ * nn_, 0.0);
      sums_.assign(3 * table.forms, 0.0);
    }
    length_.resize(capacity_);
    for (auto& steps : swings_) steps.resize(capacity_);
    rows_.resize(rows * capacity_);
    if (few_) {
      count_ = used;
      fill();
    }
  }

  // States whose steps are in slots at the same time.
  int64_t stretch() const { return stretch_; }

  // Makes the steps to these states, at most a stretch, available.
  void load(int64_t begin, int64_t end) {
    if (few_ || (begin == begin_ && end - begin == count_)) return;
    begin_ = begin;
    count_ = end - begin;
    fill();
  }

  const double* A(int64_t k) const { return A_.data() + slot(k) * nn_; }
  const double* Q(int64_t k) const { return Q_.data() + slot(k) * nn_; }
  double* dA(int64_t k) { return dA_.data() + slot(k) * nn_; }
  double* dQ(int64_t k) { return dQ_.data() + slot(k) * nn_; }

  // Hands on the derivatives in A and Q of the steps that are about to be replaced.
  void leave(const StepDerivatives& out) {
    if (!few_) settle(out);
  }
  void finish(const StepDerivatives& out) {
    if (few_) settle(out);
    for (size_t i = 0; i < sums_.size(); ++i) out.parameters[i] = sums_[i];
  }

  // The block of each row begins and ends here; A is always zero in this row before column `first`,
  // and in this column from row `until` on.
  std::vector<int> low, high, first, until;

 private:
  struct Block {
    int begin, size, order;
    bool turns;
    size_t place;  // of its entries, or of its parameters
    size_t rows;   // of a closed form, in the table of slots
    size_t driven = 0;  // number of this oscillator

    bool swings() const { return order > kOrders; }
  };

  int64_t slot(int64_t k) const { return few_ ? table_.which[k] : k - begin_; }
  int64_t length_of(int64_t s) const { return few_ ? s : table_.which[begin_ + s]; }

  void fill() {
    for (int64_t s = 0; s < count_; ++s) {
      const int64_t l = length_of(s);
      length_[s] = l == 0 || table_.forms == 0 ? 0.0 : table_.length[l];
    }
    for (const Block& block : blocks_) {
      if (block.order < 0)
        fill_given(block);
      else if (block.swings())
        fill_oscillator(block);
      else
        with_order(block.order, [&](auto matern) { fill_closed(matern, block); });
    }
  }

  void fill_given(const Block& block) {
    for (int64_t s = 0; s < count_; ++s) {
      const size_t from = length_of(s) * table_.entries + block.place;
      const size_t to = s * nn_ + block.begin * (n_ + 1);
      for (int i = 0; i < block.size; ++i)
        for (int j = 0; j < block.size; ++j) {
          A_[to + i * n_ + j] = table_.A[from + i * block.size + j];
          Q_[to + i * n_ + j] = table_.Q[from + i * block.size + j];
        }
    }
  }

  template <int P>
  void fill_closed(Matern<P>, const Block& block) {
    using M = Matern<P>;
    const double* parameters = table_.parameters + 3 * block.place;
    const double variance = parameters[0], frequency = parameters[2];
    double* table = rows_.data() + block.rows * capacity_;
    M::compute(length_.data(), parameters[1], count_, table, capacity_);
    for (int64_t s = 0; s < count_; ++s)
      if (length_of(s) == 0) {  // from nothing
        for (int m = 0; m < M::kSize; ++m) table[m * capacity_ + s] = 0;
        for (int a = 0; a < M::kGammas; ++a) table[(M::kSize + a) * capacity_ + s] = 1;
      }
    double* cosine = table + M::kRows * capacity_;
    double* sine = cosine + capacity_;
    if (block.turns)
      for (int64_t s = 0; s < count_; ++s) {
        const double angle = frequency * length_[s];
        cosine[s] = std::cos(angle);
        sine[s] = std::sin(angle);
      }
    double scale[M::kSize * M::kSize];
    for (int i = 0; i < M::kSize; ++i)
      for (int j = 0; j < M::kSize; ++j) scale[i * M::kSize + j] = variance * M::unit(i, j);
    const int copies = block.turns ? 2 : 1;
    for (int64_t s = 0; s < count_; ++s) {
      double* __restrict A = A_.data() + s * nn_ + block.begin * (n_ + 1);
      double* __restrict Q = Q_.data() + s * nn_ + block.begin * (n_ + 1);
      for (int i = 0; i < M::kSize; ++i)
        for (int j = 0; j < M::kSize; ++j) {
          const int at = copies * (i * n_ + j);
          const double gamma = table[(3 * M::kSize - 2 - i - j) * capacity_ + s];
          Q[at] = scale[i * M::kSize + j] * gamma;
          if (block.turns) Q[at + n_ + 1] = Q[at];
          if (j < i) continue;
          const double power = table[(j - i) * capacity_ + s];
          if (block.turns) {
            A[at] = A[at + n_ + 1] = power * cosine[s];
            A[at + n_] = power * sine[s];
            A[at + 1] = -power * sine[s];
          } else {
            A[at] = power;
          }
        }
    }
  }

  // One that takes for ever to swing does not move, whatever its damping.
  static double damping_of(double rate, double frequency) {
    return frequency == 0 ? 0 : rate / frequency;
  }

  void fill_oscillator(const Block& block) {
    const double* parameters = table_.parameters + 3 * block.place;
    const double variance = parameters[0], frequency = parameters[2];
    const double damping = damping_of(parameters[1], frequency);
    std::vector<OscillatorStep>& steps = swings_[block.driven];
    for (int64_t s = 0; s < count_; ++s) {
      const OscillatorStep step = length_of(s) == 0
                                      ? OscillatorStep::beginning()
                                      : OscillatorStep::over(damping, frequency * length_[s]);
      steps[s] = step;
      double* A = A_.data() + s * nn_ + block.begin * (n_ + 1);
      double* Q = Q_.data() + s * nn_ + block.begin * (n_ + 1);
      A[0] = step.level.value;
      A[1] = step.response.value;
      A[n_] = -step.response.value;
      A[n_ + 1] = step.speed.value;
      Q[0] = variance * step.position.value;
      Q[1] = Q[n_] = variance * step.cross.value;
      Q[n_ + 1] = variance * step.velocity.value;
    }
  }

  void settle(const StepDerivatives& out) {
    for (const Block& block : blocks_) {
      if (block.order < 0)
        settle_given(block, out);
      else if (block.swings())
        settle_oscillator(block, out);
      else
        with_order(block.order, [&](auto matern) { settle_closed(matern, block, out); });
    }
    std::fill(dA_.begin(), dA_.end(), 0.0);
    std::fill(dQ_.begin(), dQ_.end(), 0.0);
  }

  void settle_given(const Block& block, const StepDerivatives& out) {
    for (int64_t s = 0; s < count_; ++s) {
      const size_t to = length_of(s) * table_.entries + block.place;
      const size_t from = s * nn_ + block.begin * (n_ + 1);
      for (int i = 0; i < block.size; ++i)
        for (int j = 0; j < block.size; ++j) {
          out.A[to + i * block.size + j] += dA_[from + i * n_ + j];
          out.Q[to + i * block.size + j] += dQ_[from + i * n_ + j];
        }
    }
  }

  template <int P>
  void settle_closed(Matern<P>, const Block& block, const StepDerivatives& out) {
    using M = Matern<P>;
    const double* parameters = table_.parameters + 3 * block.place;
    const double variance = parameters[0], rate = parameters[1], frequency = parameters[2];
    const double* table = rows_.data() + block.rows * capacity_;
    const int copies = block.turns ? 2 : 1;
    double unit[M::kSize * M::kSize];
    for (int i = 0; i < M::kSize; ++i)
      for (int j = 0; j < M::kSize; ++j) unit[i * M::kSize + j] = M::unit(i, j);
    double d_variance = 0, d_rate = 0, d_frequency = 0;
    for (int64_t s = 0; s < count_; ++s) {
      const double* __restrict dA = dA_.data() + s * nn_ + block.begin * (n_ + 1);
      const double* __restrict dQ = dQ_.data() + s * nn_ + block.begin * (n_ + 1);
      double power[M::kSize], on_power[M::kSize] = {}, across[M::kSize] = {};
      double on_gamma[M::kGammas] = {};
      for (int i = 0; i < M::kSize; ++i)
        for (int j = 0; j < M::kSize; ++j) {
          const int at = copies * (i * n_ + j);
          const double noise = block.turns ? dQ[at] + dQ[at + n_ + 1] : dQ[at];
          on_gamma[2 * M::kSize - 2 - i - j] += unit[i * M::kSize + j] * noise;
          if (j < i) continue;
          on_power[j - i] += block.turns ? dA[at] + dA[at + n_ + 1] : dA[at];
          if (block.turns) across[j - i] += dA[at + n_] - dA[at + 1];
        }
      double on_angle = 0;
      for (int m = 0; m < M::kSize; ++m) power[m] = table[m * capacity_ + s];
      if (block.turns) {
        const double cosine = table[M::kRows * capacity_ + s];
        const double sine = table[(M::kRows + 1) * capacity_ + s];
        for (int m = 0; m < M::kSize; ++m) {
          on_angle += power[m] * (cosine * across[m] - sine * on_power[m]);
          on_power[m] = cosine * on_power[m] + sine * across[m];
        }
      }
      for (int a = 0; a < M::kGammas; ++a)
        d_variance += on_gamma[a] * table[(M::kSize + a) * capacity_ + s];
      double on_r = 0;
      if constexpr (P > 0) {
        // dγ(a, x)/dx = x^(a−1) e⁻ˣ / (a−1)!
        const double x = 2 * std::min(rate * length_[s], kFarthest);
        double density = power[0] * power[0], sum = on_gamma[0] * density;
        for (int a = 1; a < M::kGammas; ++a) {
          density *= x * (1.0 / a);
          sum += on_gamma[a] * density;
        }
        on_r = 2 * variance * sum - on_power[0] * power[0];
        for (int m = 1; m < P; ++m) on_r += on_power[m] * (power[m - 1] - power[m]);
      }
      d_rate += length_[s] * on_r;
      d_frequency += length_[s] * on_angle;
      out.length[length_of(s)] += rate * on_r + frequency * on_angle;
    }
    sums_[3 * block.place] += d_variance;
    sums_[3 * block.place + 1] += d_rate;
    sums_[3 * block.place + 2] += d_frequency;
  }

  // In u the derivatives are F A and A D Aᵀ, where F and D are those of the equation.
  void settle_oscillator(const Block& block, const StepDerivatives& out) {
    const double* parameters = table_.parameters + 3 * block.place;
    const double variance = parameters[0], frequency = parameters[2];
    const double damping = damping_of(parameters[1], frequency);
    double d_variance = 0, d_rate = 0, d_frequency = 0;
    for (int64_t s = 0; s < count_; ++s) {
      const OscillatorStep& step = swings_[block.driven][s];
      const double* dA = dA_.data() + s * nn_ + block.begin * (n_ + 1);
      const double* dQ = dQ_.data() + s * nn_ + block.begin * (n_ + 1);
      const double on_response = dA[1] - dA[n_], on_cross = dQ[1] + dQ[n_];
      const auto through_noise = [&](double position, double cross, double velocity) {
        return dQ[0] * position + on_cross * cross + dQ[n_ + 1] * velocity;
      };
      const double h = step.response.value, speed = step.speed.value;
      const double on_u = -h * dA[0] + speed * on_response - (h + 2 * damping * speed) * dA[n_ + 1] +
                          4 * damping * variance * through_noise(h * h, h * speed, speed * speed);
      const double on_damping =
          step.level.slope * dA[0] + step.response.slope * on_response +
          step.speed.slope * dA[n_ + 1] +
          variance * through_noise(step.position.slope, step.cross.slope, step.velocity.slope);
      d_variance +=
          through_noise(step.position.value, step.cross.value, step.velocity.value);
      d_rate += on_damping / frequency;
      d_frequency += length_[s] * on_u - on_damping * damping / frequency;
      out.length[length_of(s)] += frequency * on_u;
    }
    sums_[3 * block.place] += d_variance;
    sums_[3 * block.place + 1] += d_rate;
    sums_[3 * block.place + 2] += d_frequency;
  }

  StepTable table_;
  int n_, nn_;
  bool few_ = false;
  int64_t stretch_ = 0, capacity_ = 0, begin_ = -1, count_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::vector<OscillatorStep>> swings_;
  std::vector<double> A_, Q_, dA_, dQ_, length_, rows_, sums_;
};

}  // namespace stategp
