// Package tune finds the weights of cla* by a grid search in the flow world.
//
// CLA's score is cacheWeight x hit - loadWeight x load, so that only the ratio of the
// two weights decides: the grid is one over that ratio, from cache alone to load
// alone. It is searched on seeds, or on a slice of the trace, that the scenario itself
// does not use, as the NetKV paper does; a policy tuned on what it is then measured
// with would be flattered. Equal scenarios give equal weights.
package tune
