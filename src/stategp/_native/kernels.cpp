// The handlers that XLA calls. Arrays may have any number of leading axes, chains that have nothing
// to do with each other: threads share them.
#include <cstring>
#include <thread>

#include "evidence.hpp"
#include "sweep.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Doubles = ffi::Buffer<ffi::F64>;
using Out = ffi::ResultBuffer<ffi::F64>;
using Integers = ffi::Buffer<ffi::S32>;

namespace stategp {
namespace {

template <typename Work>
auto with_dim(int d, const Work& work) {
  switch (d) {
    case 1: return work(Dim<1>(d));
    case 2: return work(Dim<2>(d));
    case 3: return work(Dim<3>(d));
    case 4: return work(Dim<4>(d));
    case 5: return work(Dim<5>(d));
    case 6: return work(Dim<6>(d));
    case 7: case 8: return work(Dim<8>(d));
    case 9: case 10: case 11: case 12: return work(Dim<12>(d));
    case 13: case 14: case 15: case 16: return work(Dim<16>(d));
    default: return work(Dim<0>(d));
  }
}

// Independent chains, on as many threads as there are cores if that is worth it.
template <typename Work>
ffi::Error for_each(int64_t batch, int64_t states, const Work& work) {
  try {
    const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
    const int64_t threads = batch * states < 2000 ? 1 : std::min(batch, cores);
    if (threads <= 1) {
      for (int64_t b = 0; b < batch; ++b) work(b);
      return ffi::Error::Success();
    }
    std::vector<std::thread> crew;
    std::vector<int> failed(threads, 0);
    for (int64_t t = 0; t < threads; ++t)
      crew.emplace_back([&, t] {
        try {
          for (int64_t b = t; b < batch; b += threads) work(b);
        } catch (...) {
          failed[t] = 1;
        }
      });
    for (auto& thread : crew) thread.join();
    for (int one : failed)
      if (one) return ffi::Error(ffi::ErrorCode::kResourceExhausted, "stategp: out of memory");
    return ffi::Error::Success();
  } catch (const std::exception& problem) {
    return ffi::Error(ffi::ErrorCode::kInternal, std::string("stategp: ") + problem.what());
  }
}

int64_t axis(const Doubles& array, int from_end) {
  const auto shape = array.dimensions();
  return shape[shape.size() - from_end];
}

ffi::Error wrong(const char* what) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::string("stategp: ") + what);
}

bool have(int64_t count, std::initializer_list<size_t> counts) {
  for (size_t one : counts)
    if (int64_t(one) != count) return false;
  return true;
}

// Whether prior and sites belong to chains of the same lengths and dimensions.
bool fits(const Doubles& A, const Doubles& Q, const Doubles& linear, const Doubles& precision) {
  const int64_t states = A.element_count(), d = std::max<int64_t>(axis(A, 1), 1);
  return axis(A, 2) == axis(A, 1) && axis(A, 3) > 0 && have(states, {Q.element_count()}) &&
         have(2 * states / d, {linear.element_count()}) &&
         have(4 * states, {precision.element_count()});
}

// The number of chains, from the leading axes of an array.
int64_t chains(const Doubles& array, size_t axes) {
  int64_t batch = 1;
  const auto shape = array.dimensions();
  for (size_t i = 0; i + axes < shape.size(); ++i) batch *= shape[i];
  return batch;
}

Chain chain_of(const Doubles& A, const Doubles& Q, const Doubles& linear, const Doubles& precision,
               int64_t b) {
  const int64_t intervals = axis(A, 3), d = axis(A, 1), size = intervals * d;
  return {intervals, int(d), A.typed_data() + b * size * d, Q.typed_data() + b * size * d,
          linear.typed_data() + b * 2 * size, precision.typed_data() + b * 4 * size * d};
}

ffi::Error sweep(Doubles A, Doubles Q, Doubles linear, Doubles precision, Out pair_mean,
                 Out pair_covariance, Out log_normaliser, Out before_mean,
                 Out before_covariance) {
  if (!fits(A, Q, linear, precision)) return wrong("prior and sites differ in length or dimension");
  const int64_t intervals = axis(A, 3), d = axis(A, 1), size = intervals * d;
  return for_each(chains(A, 3), intervals, [&](int64_t b) {
    const Sweep work{chain_of(A, Q, linear, precision, b),
                     before_mean->typed_data() + b * size,
                     before_covariance->typed_data() + b * size * d,
                     pair_mean->typed_data() + b * 2 * size,
                     pair_covariance->typed_data() + b * 4 * size * d};
    log_normaliser->typed_data()[b] = with_dim(int(d), [&](auto s) { return work.run(s); });
  });
}

ffi::Error later_sites(Doubles before_mean, Doubles before_covariance, Doubles pair_mean,
                       Doubles pair_covariance, Out pull, Out stretch) {
  const int64_t intervals = axis(before_covariance, 3), d = axis(before_covariance, 1);
  const int64_t size = intervals * d;
  return for_each(chains(before_covariance, 3), intervals, [&](int64_t b) {
    const LaterSites work{intervals,
                          int(d),
                          before_mean.typed_data() + b * size,
                          before_covariance.typed_data() + b * size * d,
                          pair_mean.typed_data() + b * 2 * size,
                          pair_covariance.typed_data() + b * 4 * size * d,
                          pull->typed_data() + b * size,
                          stretch->typed_data() + b * size * d};
    with_dim(int(d), [&](auto s) { work.run(s); });
  });
}

ffi::Error sweep_indefinite(Doubles A, Doubles Q, Doubles linear, Doubles precision,
                            Out pair_mean, Out pair_covariance, Out log_normaliser, Out mean,
                            Out covariance, Out eta, Out J) {
  if (!fits(A, Q, linear, precision)) return wrong("prior and sites differ in length or dimension");
  const int64_t intervals = axis(A, 3), d = axis(A, 1), size = intervals * d;
  return for_each(chains(A, 3), intervals, [&](int64_t b) {
    const SweepIndefinite work{chain_of(A, Q, linear, precision, b),
                               pair_mean->typed_data() + b * 2 * size,
                               pair_covariance->typed_data() + b * 4 * size * d,
                               mean->typed_data() + b * size,
                               covariance->typed_data() + b * size * d,
                               eta->typed_data() + b * size,
                               J->typed_data() + b * size * d};
    log_normaliser->typed_data()[b] = with_dim(int(d), [&](auto s) { return work.run(s); });
  });
}

ffi::Error local_gradient(Doubles A, Doubles Q, Doubles linear, Doubles precision,
                          Doubles near_mean, Doubles near_covariance, Doubles far_vector,
                          Doubles far_matrix, Out d_A, Out d_Q, Out d_linear, Out d_precision,
                          bool potentials) {
  if (!fits(A, Q, linear, precision)) return wrong("prior and sites differ in length or dimension");
  const int64_t intervals = axis(A, 3), d = axis(A, 1), size = intervals * d;
  if (!have(A.element_count(), {near_covariance.element_count(), far_matrix.element_count()}))
    return wrong("messages of another chain");
  const bool sites = d_linear->element_count() > 0;
  return for_each(chains(A, 3), intervals, [&](int64_t b) {
    const LocalGradient work{chain_of(A, Q, linear, precision, b),
                             potentials,
                             near_mean.typed_data() + b * size,
                             near_covariance.typed_data() + b * size * d,
                             far_vector.typed_data() + b * size,
                             far_matrix.typed_data() + b * size * d,
                             d_A->typed_data() + b * size * d,
                             d_Q->typed_data() + b * size * d,
                             sites ? d_linear->typed_data() + b * 2 * size : nullptr,
                             sites ? d_precision->typed_data() + b * 4 * size * d : nullptr};
    with_dim(int(d), [&](auto s) { work.run(s); });
  });
}

ffi::Error prior_samples(Doubles A, Doubles Q, Doubles white, Out states) {
  const int64_t steps = axis(A, 3), d = axis(A, 1), count = axis(white, 2);
  return for_each(chains(A, 3), steps, [&](int64_t b) {
    const PriorSamples work{steps,
                            int(d),
                            count,
                            A.typed_data() + b * steps * d * d,
                            Q.typed_data() + b * steps * d * d,
                            white.typed_data() + b * steps * count * d,
                            states->typed_data() + b * steps * count * d};
    with_dim(int(d), [&](auto s) { work.run(s); });
  });
}

ffi::Error samples(Doubles A, Doubles Q, Doubles linear, Doubles precision, Doubles white,
                   Out states) {
  if (!fits(A, Q, linear, precision)) return wrong("prior and sites differ in length or dimension");
  const int64_t intervals = axis(A, 3), d = axis(A, 1), count = axis(white, 2);
  return for_each(chains(A, 3), intervals, [&](int64_t b) {
    const Samples work{chain_of(A, Q, linear, precision, b), count,
                       white.typed_data() + b * intervals * count * d,
                       states->typed_data() + b * (intervals - 1) * count * d};
    with_dim(int(d), [&](auto s) { work.run(s); });
  });
}

ffi::Error follow(Doubles matrix, Doubles offset, Doubles start, Out states, bool reverse) {
  const int64_t length = axis(matrix, 3), d = axis(matrix, 1), columns = axis(offset, 1);
  return for_each(chains(matrix, 3), length, [&](int64_t b) {
    Follow{length,
           int(d),
           columns,
           reverse,
           matrix.typed_data() + b * length * d * d,
           offset.typed_data() + b * length * d * columns,
           start.typed_data() + b * d * columns,
           states->typed_data() + b * length * d * columns}
        .run();
  });
}

// A series and its steps, as XLA hands them over.
struct Arguments {
  const Doubles &A, &Q, &length, &forms;
  const Integers& which;
  const Doubles &h, &value, &precision;
  ffi::Span<const int64_t> sizes, kinds;

  int64_t lengths() const { return axis(A, 2); }
  int64_t states() const { return axis(value, 1); }
  int64_t d() const { return axis(h, 1); }
  int64_t batch() const { return chains(h, 1); }

  // Whether they belong together.
  bool fit() const {
    int64_t sum = 0, entries = 0, count = 0;
    if (sizes.size() != kinds.size()) return false;
    for (size_t b = 0; b < sizes.size(); ++b) {
      if (sizes[b] < 1 || kinds[b] < -1 || kinds[b] > kOscillator) return false;
      if (kinds[b] == kOscillator && sizes[b] != 2) return false;
      if (kinds[b] >= 0 && kinds[b] < kOscillator &&
          sizes[b] != std::max<int64_t>(1, kinds[b] / 2) * (1 + kinds[b] % 2))
        return false;
      sum += sizes[b];
      entries += kinds[b] < 0 ? sizes[b] * sizes[b] : 0;
      count += kinds[b] >= 0;
    }
    const int32_t* steps = which.typed_data();
    for (size_t k = 0; k < which.element_count(); ++k)
      if (steps[k] < 0 || steps[k] >= lengths()) return false;
    return sum == d() && axis(A, 1) == entries && axis(forms, 2) == count && axis(forms, 1) == 3 &&
           have(batch() * lengths() * entries, {A.element_count(), Q.element_count()}) &&
           have(batch() * lengths(), {length.element_count()}) &&
           have(batch() * 3 * count, {forms.element_count()}) &&
           have(batch() * states(),
                {value.element_count(), precision.element_count(), which.element_count()});
  }

  Series series(int64_t b) const {
    return {states(), int(d()), h.typed_data() + b * d(), value.typed_data() + b * states(),
            precision.typed_data() + b * states()};
  }

  StepTable table(int64_t b) const {
    const int64_t entries = axis(A, 1), count = axis(forms, 2), size = lengths() * entries;
    return {lengths(),
            entries,
            count,
            A.typed_data() + b * size,
            Q.typed_data() + b * size,
            length.typed_data() + b * lengths(),
            forms.typed_data() + b * 3 * count,
            sizes.begin(),
            kinds.begin(),
            int64_t(sizes.size()),
            which.typed_data() + b * states()};
  }
};

// Runs the variant for states of this kind: forward, and back if derivatives are wanted.
template <int N, bool kFirst>
void run_evidence(const Series& series, const StepTable& table, bool steady, double* log_density,
                  double* rounding, const Derivatives* out) {
  Evidence<N, kFirst> work(Dim<N>(series.d), series, table, steady, out != nullptr,
                           out && out->h != nullptr);
  work.forward(log_density, rounding);
  if (out) work.backward(*out);
}

template <int N, typename... Arguments>
void run_tiny(const Series& series, const Arguments&... rest) {
  bool first = series.h[0] == 1;
  for (int i = 1; i < series.d; ++i) first = first && series.h[i] == 0;
  return first ? run_evidence<N, true>(series, rest...) : run_evidence<N, false>(series, rest...);
}

template <typename... Arguments>
void run_any(const Series& series, const Arguments&... rest) {
  switch (series.d) {
    case 1: return run_tiny<1>(series, rest...);
    case 2: return run_tiny<2>(series, rest...);
    case 3: return run_tiny<3>(series, rest...);
    case 4: return run_tiny<4>(series, rest...);
    default: break;
  }
  switch ((series.d + 3) / 4) {
    case 2: return run_evidence<8, false>(series, rest...);
    case 3: return run_evidence<12, false>(series, rest...);
    case 4: return run_evidence<16, false>(series, rest...);
    case 5: return run_evidence<20, false>(series, rest...);
    case 6: return run_evidence<24, false>(series, rest...);
    case 7: return run_evidence<28, false>(series, rest...);
    case 8: return run_evidence<32, false>(series, rest...);
    default: return run_evidence<0, false>(series, rest...);
  }
}

ffi::Error evidence(Doubles A, Doubles Q, Doubles length, Doubles forms, Integers which, Doubles h,
                    Doubles value, Doubles precision, Out log_density, Out rounding,
                    ffi::Span<const int64_t> sizes, ffi::Span<const int64_t> kinds, bool steady) {
  const Arguments given{A, Q, length, forms, which, h, value, precision, sizes, kinds};
  if (!given.fit())
    return wrong("steps, their numbers, blocks and observations do not belong together");
  return for_each(given.batch(), given.states(), [&](int64_t b) {
    run_any(given.series(b), given.table(b), steady, log_density->typed_data() + b,
            rounding->typed_data() + b, static_cast<const Derivatives*>(nullptr));
  });
}

// Derivatives in h only if there is room for them.
ffi::Error evidence_gradient(Doubles A, Doubles Q, Doubles length, Doubles forms, Integers which,
                             Doubles h, Doubles value, Doubles precision, Out log_density,
                             Out rounding, Out d_A, Out d_Q, Out d_length, Out d_forms, Out d_h,
                             Out d_value, Out d_precision, ffi::Span<const int64_t> sizes,
                             ffi::Span<const int64_t> kinds, bool steady) {
  const Arguments given{A, Q, length, forms, which, h, value, precision, sizes, kinds};
  if (!given.fit())
    return wrong("steps, their numbers, blocks and observations do not belong together");
  const bool emission = d_h->element_count() > 0;
  for (Out* sum : {&d_A, &d_Q, &d_length})
    std::fill_n((*sum)->typed_data(), (*sum)->element_count(), 0.0);
  return for_each(given.batch(), given.states(), [&](int64_t b) {
    const StepTable table = given.table(b);
    const int64_t size = table.lengths * table.entries, states = given.states();
    const Derivatives out{{d_A->typed_data() + b * size, d_Q->typed_data() + b * size,
                           d_length->typed_data() + b * table.lengths,
                           d_forms->typed_data() + b * 3 * table.forms},
                          emission ? d_h->typed_data() + b * given.d() : nullptr,
                          d_value->typed_data() + b * states,
                          d_precision->typed_data() + b * states};
    run_any(given.series(b), table, steady, log_density->typed_data() + b,
            rounding->typed_data() + b, &out);
  });
}

// The arguments, unchanged: XLA computes them once, whoever reads them.
ffi::Error hold(ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto from = arguments.get<ffi::AnyBuffer>(i);
    auto to = results.get<ffi::AnyBuffer>(i);
    if (!from.has_value() || !to.has_value()) return wrong("an argument of hold is no array");
    if ((*to)->untyped_data() != from->untyped_data())
      std::memcpy((*to)->untyped_data(), from->untyped_data(), from->size_bytes());
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace stategp

XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_hold, stategp::hold,
                              ffi::Ffi::Bind().RemainingArgs().RemainingRets());

#define STATEGP_ARRAYS1 .Arg<Doubles>()
#define STATEGP_ARRAYS2 STATEGP_ARRAYS1 STATEGP_ARRAYS1
#define STATEGP_ARRAYS4 STATEGP_ARRAYS2 STATEGP_ARRAYS2
#define STATEGP_RESULT1 .Ret<Doubles>()
#define STATEGP_RESULT2 STATEGP_RESULT1 STATEGP_RESULT1
#define STATEGP_RESULT4 STATEGP_RESULT2 STATEGP_RESULT2

XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_sweep, stategp::sweep,
                              ffi::Ffi::Bind() STATEGP_ARRAYS4 STATEGP_RESULT4 STATEGP_RESULT1);
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_later_sites, stategp::later_sites,
                              ffi::Ffi::Bind() STATEGP_ARRAYS4 STATEGP_RESULT2);
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_local_gradient, stategp::local_gradient,
                              ffi::Ffi::Bind() STATEGP_ARRAYS4 STATEGP_ARRAYS4 STATEGP_RESULT4
                                  .Attr<bool>("potentials"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_sweep_indefinite, stategp::sweep_indefinite,
                              ffi::Ffi::Bind() STATEGP_ARRAYS4 STATEGP_RESULT4 STATEGP_RESULT2
                                  STATEGP_RESULT1);
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_prior_samples, stategp::prior_samples,
                              ffi::Ffi::Bind() STATEGP_ARRAYS2 STATEGP_ARRAYS1 STATEGP_RESULT1);
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_samples, stategp::samples,
                              ffi::Ffi::Bind() STATEGP_ARRAYS4 STATEGP_ARRAYS1 STATEGP_RESULT1);
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_follow, stategp::follow,
                              ffi::Ffi::Bind() STATEGP_ARRAYS2 STATEGP_ARRAYS1 STATEGP_RESULT1
                                  .Attr<bool>("reverse"));
#define STATEGP_SERIES \
  ffi::Ffi::Bind() STATEGP_ARRAYS4.Arg<Integers>() STATEGP_ARRAYS2 STATEGP_ARRAYS1
#define STATEGP_BLOCKS                                                                \
      .Attr<ffi::Span<const int64_t>>("sizes")                                        \
      .Attr<ffi::Span<const int64_t>>("kinds")                                        \
      .Attr<bool>("steady")
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_evidence, stategp::evidence,
                              STATEGP_SERIES STATEGP_RESULT2 STATEGP_BLOCKS);
XLA_FFI_DEFINE_HANDLER_SYMBOL(stategp_evidence_gradient, stategp::evidence_gradient,
                              STATEGP_SERIES STATEGP_RESULT4 STATEGP_RESULT4 STATEGP_RESULT1
                                  STATEGP_BLOCKS);
