//! Eigenvalues of small symmetric matrices.

/// A square matrix, row by row.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Eigenvalues of a symmetric matrix, and its eigenvectors as columns, by Jacobi's rotations: slow
/// for large matrices, but short, exact to rounding, and the same on every machine.
pub(super) fn symmetric(mut a: Matrix) -> (Vec<f64>, Matrix) {
    let n = a.len();
    let mut vectors = identity(n);
    for _ in 0..64 {
        let off: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| a[i][j] * a[i][j])
            .sum();
        let diagonal: f64 = (0..n).map(|i| a[i][i] * a[i][i]).sum();
        if off <= 1e-30 * diagonal {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, p, q);
            }
        }
    }
    ((0..n).map(|i| a[i][i]).collect(), vectors)
}

pub(super) fn identity(n: usize) -> Matrix {
    let unit = |i: usize| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
    (0..n).map(unit).collect()
}

/// Turns the plane of axes `p < q` so that their common element vanishes.
fn rotate(a: &mut Matrix, vectors: &mut Matrix, p: usize, q: usize) {
    if a[p][q].abs() < f64::MIN_POSITIVE {
        return;
    }
    let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |x: f64, y: f64| (cosine * x - sine * y, sine * x + cosine * y);
    for row in a.iter_mut().chain(vectors.iter_mut()) {
        (row[p], row[q]) = turn(row[p], row[q]);
    }
    let (above, below) = a.split_at_mut(q);
    for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
        (*x, *y) = turn(*x, *y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_matrix_has_its_eigenvalues() {
        let (mut values, _) = symmetric(vec![
            vec![2.0, -1.0, 0.0],
            vec![-1.0, 2.0, -1.0],
            vec![0.0, -1.0, 2.0],
        ]);
        values.sort_by(f64::total_cmp);
        let root = 2.0_f64.sqrt();
        for (value, expected) in values.iter().zip([2.0 - root, 2.0, 2.0 + root]) {
            assert!((value - expected).abs() < 1e-12, "{value}");
        }
    }

    #[test]
    fn values_and_vectors_give_the_matrix_back() {
        let matrix: Matrix = (0..5_u8)
            .map(|i| {
                let entry = |j: u8| f64::from(i * j % 7) + if i == j { 5.0 } else { 0.0 };
                (0..5).map(entry).collect()
            })
            .collect();
        let (values, vectors) = symmetric(matrix.clone());
        for i in 0..5 {
            for j in 0..5 {
                let sum: f64 = (0..5)
                    .map(|k| vectors[i][k] * values[k] * vectors[j][k])
                    .sum();
                assert!((sum - matrix[i][j]).abs() < 1e-10);
            }
        }
    }
}
