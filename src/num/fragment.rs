//! Which lane and register of a warp holds which element of an `mma` operand.
