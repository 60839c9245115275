package paper

import (
	"fmt"
	"math"
)

const (
	tenantsTable     = "open-tenants"
	unseparatedTable = "open-tenants-unseparated"
	topLoad          = "400%"
	tightLoad        = "400%, batches of 2"
)

var (
	tenantCounts   = []string{"1", "2", "4", "8"}
	tenantLoads    = []string{"100%", "200%", "400%", tightLoad}
	tenantPolicies = []string{"rr", "cla*", "netkv-topo", "netkv-full"}
)

// priceOf is a policy's metric with n tenants, divided by that with one scheduler.
func (d *Data) priceOf(table, n, load, policy, metric string) price {
	mean, ci := d.Tables[table].Ratio([]string{n, load}, []string{"1", load}, policy, metric)
	return price{mean, ci}
}

// tenants writes the cost of several schedulers that decide independently.
func tenants(b *page, d *Data) {
	b.WriteString("**Tenants that decide independently.** Each request is one of N tenants' by an even draw, and each tenant has a scheduler of its own (`workload.tenants`). The\n" +
		"tenants share instances, network and oracle. A tenant knows its own requests from the decision on; of the others' it learns what the instances report: requests that wait\n" +
		"there with all their bytes, batches, free memory, cached blocks. Transfers in flight and requests on their way are the owner's knowledge alone: the oracle leaves all KV\n" +
		"traffic out of the congestion, also the other tenants'. *Price of anarchy*: the mean transfer with N tenants over that with one, on the same seed; above 1, deciding apart\n" +
		"costs.\n\n" +
		"| load | policy | transfer, one | N = 2 | N = 4 | N = 8 | TTFT, one | N = 8 |\n|---|---|---|---|---|---|---|---|\n")
	for _, load := range tenantLoads {
		for _, policy := range tenantPolicies {
			priceRow(b, d, tenantsTable, load, policy, "`"+policy+"`")
		}
		priceRow(b, d, unseparatedTable, load, "netkv-full", "`netkv-full`, `separation: none`")
	}
	b.WriteString("\n")
	tenantsVerdict(b, d)
}

// price is a mean ratio with the half width of its interval.
type price struct{ mean, ci float64 }

func (p price) String() string { return fmt.Sprintf("%.3f ± %.3f", p.mean, p.ci) }
func (p price) above() bool    { return p.mean-p.ci > 1 }
func (p price) below() bool    { return p.mean+p.ci < 1 }

// near reports whether a price is close to 1.
func (p price) near(within float64) bool { return math.Abs(p.mean-1) <= within }

// always reports whether something holds for a policy's transfers for any number of tenants, at
// all loads at which batches have room.
func (d *Data) always(table, policy string, holds func(price) bool) bool {
	for _, load := range tenantLoads {
		for _, n := range tenantCounts[1:] {
			if load != tightLoad && !holds(d.priceOf(table, n, load, policy, "transfer_mean")) {
				return false
			}
		}
	}
	return true
}

// tenantsVerdict writes the conclusions, with the table's own figures.
func tenantsVerdict(b *page, d *Data) {
	transfer := func(load, policy string) price { return d.priceOf(tenantsTable, "8", load, policy, "transfer_mean") }
	ttft := func(policy string) price { return d.priceOf(tenantsTable, "8", tightLoad, policy, "ttft_mean") }
	far := func(n, policy string) float64 {
		v, _ := d.Tables[tenantsTable].Mean([]string{n, topLoad}, policy, "tier3")
		return 100 * v
	}
	lead := func(n string) float64 {
		v, _ := d.Tables[tenantsTable].Change([]string{n, topLoad}, "netkv-full", "cla*", "transfer_mean", 0)
		return v
	}
	same := func(p price) bool { return p.near(1e-6) }

	cla, rr := transfer(topLoad, "cla*"), transfer(topLoad, "rr")
	b.claim(cla.above() && rr.above(),
		"*Choosing by load has a price.* At 400 %% and eight tenants it is %s for `cla*`, and %s for `rr`, whose eight rounds are no round robin.\n\n", cla, rr)
	b.claim(d.always(tenantsTable, "netkv-topo", same),
		"*Choosing by locality has none, as long as batches have room.* `netkv-topo` takes the same decisions at any N: tiers, caches and batches are known to all alike, and\n"+
			"the cost of Algorithm 1 counts requests on their way only once they exceed the free places of a batch. A single scheduler herds no less. ")
	full := transfer(topLoad, "netkv-full")
	b.claim(full.below(), "`netkv-full` loses most of\nits count of transfers in flight, and at 400 %% that is a gain: %s. ", full)
	b.claim(far("1", "netkv-full") > far("8", "netkv-full") && far("8", "netkv-full") > far("8", "netkv-topo") && full.below(),
		"The count sends it to other pods (%.1f %% of transfers; with eight tenants %.1f %%,\n"+
			"`netkv-topo` %.1f %%) at a greater cost than it avoids; the less a tenant sees, the closer it comes to `netkv-topo`. ",
		far("1", "netkv-full"), far("8", "netkv-full"), far("8", "netkv-topo"))
	fmt.Fprintf(b, "NetKV's change of the transfer time against `cla*` goes from\n%+.1f %% with one tenant to %+.1f %% with eight.\n\n", lead("1"), lead("8"))

	tight, topo, fullTTFT := ttft("cla*"), ttft("netkv-topo"), ttft("netkv-full")
	b.claim(tight.above() && tight.mean > 1.25,
		"*Where batches are full* the queue counts, and each tenant knows only its own part of it. In TTFT the price of eight tenants is then %s for `cla*`;\n", tight)
	seeds := len(d.Tables[tenantsTable].seeds[key([]string{"8", tightLoad}, "netkv-topo")])
	b.claim(topo.near(0.05) && fullTTFT.near(0.05), "for `netkv-topo` it is %s and for `netkv-full` %s, which %s seeds hardly tell from 1.\n\n", topo, fullTTFT, spelled(seeds))
	b.claim(d.always(unseparatedTable, "netkv-full", same),
		"With `oracle.separation: none` nobody counts, and the congestion holds the transfers of all: again all tenants know the same, and while batches have room the\nprice is 1. ")
	b.WriteString("An operator can also give each tenant's transfers a DSCP class of its own, so that the congestion told to a tenant holds the others' and not its own. Our oracle\n" +
		"knows one class for KV traffic, so that case is not shown. Nor is an optimum: what is compared is one scheduler and several of the same rule.\n\n")
}

func spelled(n int) string {
	if words := []string{"no", "one", "two", "three", "four", "five", "six"}; n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

func priceRow(b *page, d *Data, table, load, policy, name string) {
	one := []string{"1", load}
	transfer, _ := d.Tables[table].Mean(one, policy, "transfer_mean")
	ttft, _ := d.Tables[table].Mean(one, policy, "ttft_mean")
	fmt.Fprintf(b, "| %s | %s | %.0f ms |", load, name, transfer)
	for _, n := range tenantCounts[1:] {
		fmt.Fprintf(b, " %s |", d.priceOf(table, n, load, policy, "transfer_mean"))
	}
	fmt.Fprintf(b, " %.0f ms | %s |\n", ttft, d.priceOf(table, "8", load, policy, "ttft_mean"))
}
