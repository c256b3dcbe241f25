#pragma once
#include <nanobind/nanobind.h>

void bind_enums(nanobind::module_ &m);
void bind_deadline(nanobind::module_ &m);
void bind_projection(nanobind::module_ &m);
void bind_designs(nanobind::module_ &m);
void bind_fingerprint(nanobind::module_ &m);
void bind_gram_search(nanobind::module_ &m);
void bind_losses(nanobind::module_ &m);
void bind_affine(nanobind::module_ &m);
void bind_spectral(nanobind::module_ &m);
void bind_multinomial(nanobind::module_ &m);
void bind_acsa(nanobind::module_ &m);
void bind_nesterov(nanobind::module_ &m);
void bind_stochastic(nanobind::module_ &m);
void bind_quadratic(nanobind::module_ &m);
void bind_column_fits(nanobind::module_ &m);
void bind_class_fits(nanobind::module_ &m);
void bind_kinked_fits(nanobind::module_ &m);
void bind_residual(nanobind::module_ &m);
void bind_level(nanobind::module_ &m);
void bind_libsvm(nanobind::module_ &m);
