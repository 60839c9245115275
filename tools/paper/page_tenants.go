package paper

import (
	"fmt"
	"strings"
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

// price is what n tenants make of a policy's metric, over what one scheduler makes of it.
func (d *Data) price(table, n, load, policy, metric string) (mean, ci float64) {
	return d.Tables[table].Ratio([]string{n, load}, []string{"1", load}, policy, metric)
}

// tenants shows what it costs that several schedulers decide without knowing of each other.
func tenants(b *strings.Builder, d *Data) {
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

// tenantsVerdict says what comes out, with the table's own figures.
func tenantsVerdict(b *strings.Builder, d *Data) {
	t := d.Tables[tenantsTable]
	transfer := func(load, policy string) string {
		p, ci := d.price(tenantsTable, "8", load, policy, "transfer_mean")
		return fmt.Sprintf("%.3f ± %.3f", p, ci)
	}
	ttft := func(policy string) string {
		p, ci := d.price(tenantsTable, "8", tightLoad, policy, "ttft_mean")
		return fmt.Sprintf("%.3f ± %.3f", p, ci)
	}
	far := func(n, policy string) float64 {
		v, _ := t.Mean([]string{n, topLoad}, policy, "tier3")
		return 100 * v
	}
	lead := func(n string) float64 {
		v, _ := t.Change([]string{n, topLoad}, "netkv-full", "cla*", "transfer_mean", 0)
		return v
	}
	fmt.Fprintf(b, "*Choosing by load has a price.* At 400 %% and eight tenants it is %s for `cla*`, and %s for `rr`, whose eight rounds are no round robin.\n\n"+
		"*Choosing by locality has none, as long as batches have room.* `netkv-topo` takes the same decisions at any N: tiers, caches and batches are known to all alike, and\n"+
		"the cost of Algorithm 1 counts requests on their way only once they exceed the free places of a batch. A single scheduler herds no less. `netkv-full` loses most of\n"+
		"its count of transfers in flight, and at 400 %% that is a gain: %s. The count sends it to other pods (%.1f %% of transfers; with eight tenants %.1f %%,\n"+
		"`netkv-topo` %.1f %%) at a greater cost than it avoids; the less a tenant sees, the closer it comes to `netkv-topo`. NetKV's change of the transfer time against `cla*` goes from\n"+
		"%+.1f %% with one tenant to %+.1f %% with eight.\n\n",
		transfer(topLoad, "cla*"), transfer(topLoad, "rr"), transfer(topLoad, "netkv-full"),
		far("1", "netkv-full"), far("8", "netkv-full"), far("1", "netkv-topo"), lead("1"), lead("8"))
	fmt.Fprintf(b, "*Where batches are full* the queue counts, and each tenant knows only its own part of it. In TTFT the price of eight tenants is then %s for `cla*`;\n"+
		"for `netkv-topo` it is %s and for `netkv-full` %s, which five seeds hardly tell from 1.\n\n", ttft("cla*"), ttft("netkv-topo"), ttft("netkv-full"))
	b.WriteString("With `oracle.separation: none` nobody counts, and the congestion holds the transfers of all: again all tenants know the same, and while batches have room the\n" +
		"price is 1. An operator can also give each tenant's transfers a DSCP class of its own, so that the congestion told to a tenant holds the others' and not its own. Our oracle\n" +
		"knows one class for KV traffic, so that case is not shown. Nor is an optimum: what is compared is one scheduler and several of the same rule.\n\n")
}

func priceRow(b *strings.Builder, d *Data, table, load, policy, name string) {
	one := []string{"1", load}
	transfer, _ := d.Tables[table].Mean(one, policy, "transfer_mean")
	ttft, _ := d.Tables[table].Mean(one, policy, "ttft_mean")
	fmt.Fprintf(b, "| %s | %s | %.0f ms |", load, name, transfer)
	for _, n := range tenantCounts[1:] {
		p, ci := d.price(table, n, load, policy, "transfer_mean")
		fmt.Fprintf(b, " %.3f ± %.3f |", p, ci)
	}
	p, ci := d.price(table, "8", load, policy, "ttft_mean")
	fmt.Fprintf(b, " %.0f ms | %.3f ± %.3f |\n", ttft, p, ci)
}
