// Command calibrate fits the parameters that the NetKV paper does not give, using only the 100 %
// rows of its Table II, and prints them as settings of the scenario. With -write FILE it puts
// them into that file. `make paper-calibrate` writes scenarios/paper/paper-table2.yaml (about
// three minutes on two cores).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/netkvlab/netkvlab/tools/paper"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "calibrate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	write := flag.String("write", "", "scenario file to put the values into")
	flag.Parse()
	f, err := paper.Calibrate(ctx, "paper-table2", os.Stderr)
	if err != nil {
		return err
	}
	for _, s := range f.Settings {
		fmt.Println(s)
	}
	for _, c := range paper.Table2()[0].Cells {
		g := f.Figures[c.Policy]
		fmt.Printf("%-10s TTFT %5.0f (paper %4.0f) transfer %4.0f (paper %4.0f) SLO %.3f (paper %.3f) tier 2 %.3f hit %.3f\n",
			c.Policy, g.Value("ttft_mean"), c.TTFT, g.Value("transfer_mean"), c.Transfer, g.Value("slo"), c.SLO, g.Value("tier2"), g.Value("hit_share"))
	}
	if *write == "" {
		return nil
	}
	text, err := os.ReadFile(*write)
	if err != nil {
		return err
	}
	if text, err = paper.WriteSettings(text, f.Settings); err != nil {
		return err
	}
	return os.WriteFile(*write, text, 0o644)
}
