//! Ways of putting the frames of a plan out, and the workers that pace them.
