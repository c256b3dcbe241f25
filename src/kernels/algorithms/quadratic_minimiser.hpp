// The algorithm behind minimise_quadratic (quadratic.hpp), in coordinates in which Q has a unit diagonal.
//
// quadratic.cpp        projected gradient steps, and the change of coordinates before and after them
// quadratic_faces.cpp  search on a face: coordinates that are not zero, with the level held if it binds
// quadratic_solve.cpp  the linear algebra of that search: the minimiser of the model on a face
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/quadratic.hpp"
#include "simd/simd.hpp"

namespace levelprox {

class QuadraticMinimiser {
public:
    QuadraticMinimiser(const Quadratic &Q, const double *gradient, const double *diagonal, const Ball<double> &set,
                       const QuadraticSettings &settings, QuadraticState &state, FaceFactor &factor, Poll &poll);

    // Minimises the model over the set.
    void run();

    // Writes the answer to the state, in the coordinates of the caller.
    void finish();

private:
    using Vector = std::vector<double>;
    using Indices = std::vector<std::int64_t>;

    static constexpr std::size_t MOST_FACTORISED = 128;  // coordinates of a face that always has a Cholesky factor

    static constexpr int MOST_BLOCKING =
        3;  // coordinates at once, beyond which a projection replaces steps along edges

    // The coordinates that may move, and the gradient of the level at x along them.
    struct Face {
        Indices indices;
        Vector normal;
        double spent = 0;  // of the level
    };

    // How far x may move in a direction on a face.
    struct FaceStep {
        double length = 1;           // at most 1: the whole direction
        std::int64_t blocking = -1;  // the first coordinate to reach zero on the way, or none
        int n_blocking = 0;          // coordinates that reach zero on the way
        double cost = 0;             // what the whole direction adds to the level
        bool reaches_level = false;
    };

    static double dot(const Vector &a, const Vector &b) {
        return simd().dense<double>().dot(std::int64_t(a.size()), a.data(), b.data());
    }

    // quadratic.cpp
    void set_units(const double *gradient, const double *diagonal);
    void find_step(double &step);
    void project_step(double step);
    void project(const Vector &from, Vector &to, double guess);
    bool advance(double bend, double least_decrease = 0);
    bool trial_has_signs_of_x() const;
    void apply(const Vector &v, Vector &out);
    bool is_exhausted() const { return state_.products + work_ >= settings_.max_products; }

    // quadratic_faces.cpp
    void search_face();
    Face nonzero_face() const;
    FaceStep longest_step(const Face &face, const Vector &direction) const;
    void stop_at_level(const Face &face, FaceStep &step) const;
    void move_on_face(const Face &face, const Vector &direction, const FaceStep &step);
    void search_group_face();
    Face nonzero_groups(Vector &norms) const;
    bool jump(const Indices &face, const Vector &direction);
    bool jump_shorter(const Indices &face, Vector direction);
    bool is_nonnegative(std::size_t i) const;
    bool is_unpriced_and_free(std::int64_t i) const;
    double price(std::size_t i) const;

    // quadratic_solve.cpp
    Vector minimiser_on(const Indices &face, const Vector &normal);
    Vector solve_directly(const Indices &face, const Vector &normal);
    Vector conjugate_gradients(const Indices &face, const Vector &normal, const Vector &norms = {});
    bool conjugate_gradients(const Indices &face, const Vector &normal, const Vector &norms, std::size_t most_steps,
                             Vector &v);
    bool has_factor() const { return factor_.indices.size() > MOST_FACTORISED; }
    bool is_blocked(const Indices &face, const Vector &direction) const;
    bool set_factor(const Indices &face);
    bool update_factor(const Indices &face);
    bool append_to_face(std::int64_t i);
    Vector solve_by_factor(const Indices &face, const Vector &normal) const;
    bool scaled_block(const Indices &face, Vector &block) const;
    void apply_on_face(const Indices &face, const Vector &v, Vector &out);
    void add_group_curvature(const Vector &normal, const Vector &norms, const Vector &p, Vector &Qp) const;

    const Quadratic &Q_;
    Ball<double> set_, scaled_set_;
    QuadraticSettings settings_;
    QuadraticState &state_;
    FaceFactor &factor_;
    Poll &poll_;
    std::size_t d_, width_;        // coordinates, and coordinates of a feature
    Vector unit_, prices_;         // x of the caller = unit * x; prices of the scaled set
    Vector x_, slope_;             // the point and the gradient of the model there
    Vector start_, start_slope_;   // the same at the start
    Vector trial_, move_, image_;  // a projected point, trial - x, and Q (trial - x)
    Vector shifted_, unscaled_;    // work space
    double first_residual_ = 0;
    double last_multiplier_ = 0;  // of the last projection
    double work_ = 0;             // of linear algebra on faces, in products with Q
    bool is_singular_ = false;    // a face had no factor
};

}  // namespace levelprox
