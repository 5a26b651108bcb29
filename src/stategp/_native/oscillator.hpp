// The steps of a damped oscillator that noise drives, and their derivatives.
//
// In the time u = ω₀Δ it solves f″ + 2a f′ + f = white noise with the damping a; the state is
// (f, f′). With h its response to an impulse, and for a process of unit variance,
//
//     A = | h′ + 2ah   h  |      Q = 4a | ∫h²   h²/2 |      over the time from 0 to u
//         |   −h       h′ |             | h²/2  ∫h′² |
//
// The same formulas as in kernels/_oscillator.py, each where nothing cancels: squares are integrated
// by quadrature over small steps and in closed form over large ones. Numbers carry their derivatives
// in a with them; those in u follow from the equation itself.
#pragma once

#include <cmath>
#include <initializer_list>

namespace stategp {

struct Dual {
  double value, slope;  // its derivative in the damping
  Dual(double v = 0, double s = 0) : value(v), slope(s) {}
};

inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
inline Dual operator/(Dual a, Dual b) {
  const double ratio = a.value / b.value;
  return {ratio, (a.slope - ratio * b.slope) / b.value};
}
inline Dual square(Dual a) { return a * a; }
inline Dual sqrt(Dual a) {
  const double root = std::sqrt(a.value);
  return {root, a.slope / (2 * root)};
}
inline Dual exp(Dual a) {
  const double power = std::exp(a.value);
  return {power, a.slope * power};
}
inline Dual expm1(Dual a) { return {std::expm1(a.value), a.slope * std::exp(a.value)}; }
inline Dual cos(Dual a) { return {std::cos(a.value), -a.slope * std::sin(a.value)}; }
inline Dual sin(Dual a) { return {std::sin(a.value), a.slope * std::cos(a.value)}; }

struct OscillatorStep {
  Dual level, response, speed;      // A = (level, response; −response, speed)
  Dual position, cross, velocity;  // Q = (position, cross; cross, velocity), of unit variance

  // The first step, from nothing.
  static OscillatorStep beginning() { return {{}, {}, {}, {1}, {}, {1}}; }

  static OscillatorStep over(double damping, double u) {
    const Dual a(damping, 1);
    const double slowest = damping > 1 ? 1 / (damping + root(damping)) : damping;
    if (slowest * u >= kForgotten) return beginning();
    OscillatorStep step;
    step.move(a, u);
    step.cross = 2.0 * a * square(step.response);
    const double fastest = std::fmax(1, damping);
    if (u * fastest <= kSmallStep)
      step.by_quadrature(a, u);
    else if (std::fabs(damping - 1) <= kNearCritical)
      step.from_stationary();
    else if (damping < 1)
      step.oscillating(a, u);
    else
      step.overdamped(a, u);
    return step;
  }

 private:
  static constexpr double kForgotten = 800, kSmallStep = 2, kNearCritical = 0.1;

  static double root(double a) { return std::sqrt((a - 1) * (a + 1)); }

  void move(Dual a, double u) {
    const Dual squared = (a - 1.0) * (a + 1.0), z = squared * u * u;
    if (std::fabs(z.value) < kNearCritical) {
      // cosh √z and sinh √z / √z, also of negative z
      constexpr double kEven[] = {1.0, 2, 24, 720, 40320, 3628800, 479001600, 87178291200};
      Dual even, odd;
      for (int k = 7; k >= 0; --k) {
        even = even * z + 1 / kEven[k];
        odd = odd * z + 1 / (kEven[k] * (2 * k + 1));
      }
      const Dual decay = exp(-1.0 * a * u);
      response = decay * odd * u;
      level = decay * even + a * response;
      speed = decay * even - a * response;
    } else if (squared.value > 0) {
      const Dual w = sqrt(squared), fast = a + w, slow = 1.0 / fast;
      const Dual late = exp(-u * slow), early = exp(-u * fast);
      level = (fast * late - slow * early) / (2.0 * w);
      response = -1.0 * late * expm1(-2.0 * w * u) / (2.0 * w);
      speed = (fast * early - slow * late) / (2.0 * w);
    } else {
      const Dual v = sqrt(-1.0 * squared), decay = exp(-1.0 * a * u);
      const Dual even = decay * cos(v * u), odd = decay * sin(v * u) / v;
      response = odd;
      level = even + a * odd;
      speed = even - a * odd;
    }
  }

  void by_quadrature(Dual a, double u) {
    // Gauss–Legendre with twelve nodes, which lie evenly around the middle
    constexpr double kNodes[] = {0.0626167042557344577, 0.183915749499090097, 0.293658977143308724,
        0.384951337097152344, 0.452058628185237428, 0.490780317123359625};
    constexpr double kWeights[] = {0.124573522906701393, 0.116746268269177404, 0.101583713361532961,
        0.0800391642716731132, 0.0534696629976592155, 0.0235876681932559136};
    Dual levels, speeds;
    for (int k = 0; k < 6; ++k)
      for (const double sign : {-1.0, 1.0}) {
        OscillatorStep part;
        part.move(a, u * (0.5 + sign * kNodes[k]));
        levels = levels + kWeights[k] * square(part.response);
        speeds = speeds + kWeights[k] * square(part.speed);
      }
    position = 4.0 * u * a * levels;
    velocity = 4.0 * u * a * speeds;
  }

  // From Q = P₀ − A P₀ Aᵀ: after a large step near critical damping nothing cancels there.
  void from_stationary() {
    position = 1.0 - square(level) - square(response);
    velocity = 1.0 - square(speed) - square(response);
  }

  void oscillating(Dual a, double u) {
    const Dual v = sqrt((1.0 - a) * (1.0 + a)), decay = exp(-2.0 * a * u);
    const Dual average = -1.0 * expm1(-2.0 * a * u), angle = 2.0 * v * u;
    const Dual even = a * a * (1.0 - decay * cos(angle)), odd = a * v * decay * sin(angle);
    position = (average - (even + odd)) / (v * v);
    velocity = (average - (even - odd)) / (v * v);
  }

  void overdamped(Dual a, double u) {
    const Dual w = sqrt((a - 1.0) * (a + 1.0)), fast = a + w, slow = 1.0 / fast;
    const auto integral = [u](Dual rate) { return -1.0 * expm1(-u * rate) / rate; };
    const Dual both = integral(2.0 * a), late = integral(2.0 * slow), early = integral(2.0 * fast);
    position = a * (late - 2.0 * both + early) / (w * w);
    velocity = a * (fast * fast * early - 2.0 * both + slow * slow * late) / (w * w);
  }
};

}  // namespace stategp
