package flowworld

import (
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/controller"
)

// poll is the oracle's poll of the switches: the share of each tier's links that others use,
// plus the transfers' own load if that cannot be separated.
func (w *World) poll() {
	w.polls++
	truth := w.cfg.Background
	if w.cfg.CountOwn {
		own := w.ownLoad()
		for t := range truth {
			truth[t] += own[t]
		}
	}
	said, ok := truth, true
	if w.cfg.Congestion != nil {
		said, ok = w.cfg.Congestion(w.polls, truth)
	}
	if ok {
		w.later(w.now+w.cfg.Staleness, item{ev: controller.Event{Kind: controller.Congestion, At: w.now, Congestion: said}})
	}
	w.later(w.now+w.cfg.Refresh, item{poll: true})
}

// ownLoad is the transfers' mean share of each tier's links now.
func (w *World) ownLoad() [4]float64 {
	var sum, links [4]float64
	if w.cfg.Paths == PathTier {
		return sum
	}
	for l := range flowsim.LinkIndex(w.net.Links()) {
		link := &w.cfg.Plan.Links[flowsim.HopOf(l).Link]
		if link.Tier == 0 {
			continue
		}
		sum[link.Tier] += w.net.LinkLoad(l) / link.Rate.BytesPerSecond()
		links[link.Tier]++
	}
	for t := range sum {
		if links[t] > 0 {
			sum[t] /= links[t]
		}
	}
	return sum
}
