// The compiled half of levelprox: one bind_*.cpp per noun, gathered here.
#include "bindings/module.hpp"

NB_MODULE(_kernels, m) {
    m.doc() = "levelprox's compiled kernels; use the Python modules that wrap them.";
    // Objects that live in a module until the interpreter ends are no leaks worth a page of warnings.
    nanobind::set_leak_warnings(false);
    bind_deadline(m);
    bind_projection(m);
    bind_designs(m);
    bind_fingerprint(m);
    bind_losses(m);
    bind_affine(m);  // the base class of the models that follow
    bind_spectral(m);
    bind_multinomial(m);
    bind_acsa(m);
    bind_nesterov(m);
    bind_stochastic(m);
    bind_quadratic(m);
    bind_column_fits(m);
    bind_gram_search(m);
    bind_residual(m);
    bind_libsvm(m);
    nanobind::module_::import_("levelprox._runtime.threads").attr("set_up")(m);
}
