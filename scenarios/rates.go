package scenarios

import (
	"math"
	"reflect"
)

// agree is the allowed difference of oversubscription and linkRates when a file gives
// both: enough for rates with four digits.
const agree = 1e-3

// uplinkTier is one tier of links above the hosts, with the two ways to give its rate.
type uplinkTier struct {
	ratioPath, ratePath string
	ratio               *float64
	rate                *BitsPerSecond
	hosts               BitsPerSecond // sum of the NICs below, idle instances included
	links               int           // links that carry them up
}

func (s *Scenario) uplinkTiers() []uplinkTier {
	t := &s.Topology
	rack := BitsPerSecond(t.InstancesPerRack(s.Model.TensorParallel)*t.NICsPerInstance) * t.NICRate
	pod := BitsPerSecond(t.RacksPerPod) * rack
	return []uplinkTier{
		{
			"topology.oversubscription.rack", "topology.linkRates.rackUplink",
			&t.Oversubscription.Rack, &t.LinkRates.RackUplink, rack, t.AggsPerPod,
		},
		{
			"topology.oversubscription.pod", "topology.linkRates.coreLink",
			&t.Oversubscription.Pod, &t.LinkRates.CoreLink, pod, t.AggsPerPod * t.CoresPerAgg,
		},
	}
}

// perLink is the rate of one link at the given oversubscription, to the nearest bit per second.
func (u uplinkTier) perLink(ratio float64) BitsPerSecond {
	return BitsPerSecond(math.Round(float64(u.hosts) / float64(u.links) / ratio))
}

// rates makes Oversubscription and LinkRates agree, tier by tier.
// The topology's own figures must be sound.
func (d deriver) rates() {
	for _, u := range d.uplinkTiers() {
		switch {
		case !d.given(u.ratePath) || d.overruled(u.ratePath, u.ratioPath):
			*u.rate = u.perLink(*u.ratio)
		case !d.given(u.ratioPath) || d.overruled(u.ratioPath, u.ratePath):
			*u.ratio = float64(u.hosts) / float64(u.links) / float64(*u.rate)
		}
	}
}

// rates compares the two spellings with each other and with their ranges.
func (c checker) rates() {
	oversubscription, linkRates := root().child("topology").child("oversubscription"), root().child("topology").child("linkRates")
	for i, u := range c.uplinkTiers() {
		ratio, rate := oversubscription.fields[i], linkRates.fields[i]
		switch want := u.perLink(*u.ratio); {
		case !ratio.inRange(reflect.ValueOf(*u.ratio)):
			c.addf(u.ratePath, "is %s, which makes the oversubscription %s (%s of NICs over %d links); it must be %s",
				*u.rate, formatFloat(*u.ratio), u.hosts, u.links, ratio.rangeText)
		case !rate.inRange(reflect.ValueOf(*u.rate)):
			c.addf(u.ratioPath, "is %s, which makes a link %s (%s of NICs over %d links); it must be %s",
				formatFloat(*u.ratio), *u.rate, u.hosts, u.links, rate.rangeText)
		case math.Abs(float64(*u.rate)-float64(want)) > max(1, agree*float64(want)):
			c.addf(u.ratePath, "is %s, but %s = %s makes it %s (%s of NICs over %d links); drop one of the two",
				*u.rate, u.ratioPath, formatFloat(*u.ratio), want, u.hosts, u.links)
		}
	}
}
