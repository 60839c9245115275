// Package tune finds the weights of cla* by a grid search in the flow world.
//
// CLA's score is cacheWeight x hit - loadWeight x load, so only the ratio of the two weights
// matters. The grid is over that ratio, from cache only to load only. As in the NetKV paper, it
// is searched on seeds, and on a slice of a trace, that the scenario itself does not use:
// measuring a policy on the data that it was tuned on would favour it. Equal scenarios give
// equal weights.
package tune
