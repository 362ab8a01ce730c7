//! Handles and descriptors of a program: numbers for what it has made, and what it has set.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::algebra::Compressed;
use super::matrix::{DenseMatrix, SparseMatrix, SparseVector};
use super::memory::{Base, Number};
use super::{Answer, Failure};
use crate::program::pointers::Out;

/// What a program sets for a handle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    pub(super) stream: u64,
    /// Whether scalars and results are in memory of the device.
    pub(super) on_device: bool,
}

/// A descriptor of the older functions, by the numbers of the header.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MatrixDescriptor {
    pub(super) kind: u32,
    pub(super) fill: u32,
    pub(super) diagonal: u32,
    pub(super) base: Base,
}

/// Values that replace those of a matrix in a triangular system.
#[derive(Debug, Default)]
pub(super) struct NewValues {
    /// Of all elements by place.
    pub(super) all: Option<Vec<Number>>,
    /// Of the diagonal by row.
    pub(super) diagonal: Option<Vec<Number>>,
}

/// A description of triangular systems with one vector or several.
#[derive(Debug, Clone, Default)]
pub(super) struct System {
    /// The matrix that was analysed.
    pub(super) matrix: Option<SparseMatrix>,
    pub(super) values: Arc<Mutex<NewValues>>,
}

/// What the steps of a product of sparse matrices have found.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseProduct {
    /// The number of products of elements, once it is estimated.
    pub(super) products: Option<usize>,
    pub(super) result: Option<Arc<Compressed>>,
}

/// The first zero pivots of a factorization.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pivots {
    /// A row without an element on the diagonal.
    pub(super) structural: Option<usize>,
    pub(super) numerical: Option<usize>,
    pub(super) base: Base,
}

/// What replaces small pivots: the addresses of the bound and of the value.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoostPlaces {
    pub(super) bound: u64,
    pub(super) value: u64,
}

/// A description of an incomplete factorization.
#[derive(Debug, Clone, Default)]
pub(super) struct Factorization {
    /// What the work in its stream has found.
    pub(super) pivots: Arc<Mutex<Pivots>>,
    pub(super) boost: Option<BoostPlaces>,
}

/// A dense vector is a dense matrix with one column.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseVector(pub(super) DenseMatrix);

/// Defines the kinds of objects.
macro_rules! kinds {
    ($($kind:ident($ty:ty);)*) => {
        /// What a program has made.
        #[derive(Debug)]
        pub(super) enum Object {
            $($kind($ty),)*
        }

        $(
            impl Kind for $ty {
                fn into_object(self) -> Object {
                    Object::$kind(self)
                }

                fn from_object(object: &mut Object) -> Option<&mut Self> {
                    if let Object::$kind(held) = object { Some(held) } else { None }
                }
            }
        )*
    };
}

/// A kind of object.
pub(super) trait Kind: Clone {
    fn into_object(self) -> Object;
    fn from_object(object: &mut Object) -> Option<&mut Self>;
}

/// A description of triangular systems with several vectors.
#[derive(Debug, Clone, Default)]
pub(super) struct MatrixSystem(pub(super) System);

/// An incomplete Cholesky factorization.
#[derive(Debug, Clone, Default)]
pub(super) struct Cholesky(pub(super) Factorization);

kinds! {
    Handle(Settings);
    MatrixDescriptor(MatrixDescriptor);
    SparseVector(SparseVector);
    DenseVector(DenseVector);
    SparseMatrix(SparseMatrix);
    DenseMatrix(DenseMatrix);
    System(System);
    MatrixSystem(MatrixSystem);
    SparseProduct(SparseProduct);
    Factorization(Factorization);
    Cholesky(Cholesky);
}

#[derive(Debug, Default)]
struct Objects {
    made: u64,
    live: HashMap<u64, Object>,
}

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Objects are addresses to programs, of which some ask whether they are aligned.
const FIRST: u64 = 0x1_5BA2_0000;

/// Makes an object and tells the program its number.
pub(super) fn make(place: Out<u64>, object: impl Kind) -> Answer {
    let mut objects = objects();
    objects.made += 1;
    let number = FIRST + 0x100 * objects.made;
    place.set(number)?;
    objects.live.insert(number, object.into_object());
    Ok(())
}

/// Changes an object of a kind.
pub(super) fn change<T: Kind, R>(number: u64, change: impl FnOnce(&mut T) -> R) -> Result<R, Failure> {
    objects().live.get_mut(&number).and_then(T::from_object).map(change).ok_or(Failure::INVALID_VALUE)
}

/// An object of a kind as it is now.
pub(super) fn get<T: Kind>(number: u64) -> Result<T, Failure> {
    change(number, |object: &mut T| object.clone())
}

/// Destroys an object of a kind; no object needs nothing.
pub(super) fn destroy<T: Kind>(number: u64) -> Answer {
    if number == 0 {
        return Ok(());
    }
    get::<T>(number)?;
    objects().live.remove(&number);
    Ok(())
}
