// The extension module levelprox._kernels: each file of this folder binds one part.
#include "bindings/module.hpp"

#include <nanobind/stl/string.h>

NB_MODULE(_kernels, m) {
    m.doc() = "levelprox's compiled kernels; use the Python modules that wrap them.";
    // Objects that live until the interpreter ends are not leaks.
    nanobind::set_leak_warnings(false);
    bind_enums(m);
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
    bind_class_fits(m);
    bind_kinked_fits(m);
    bind_gram_search(m);
    bind_residual(m);
    bind_level(m);
    bind_libsvm(m);
    // The stub generator loads this module alone, as `_kernels`, without the package.
    if (nanobind::cast<std::string>(m.attr("__name__")) == "levelprox._kernels")
        nanobind::module_::import_("levelprox._runtime");  // sets up the threads
}
