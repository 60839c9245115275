package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/lab"
)

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (a *app) psCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ps [LAB]",
		Short: "List the labs on this host, or the agents of one",
		Long: `Lists the labs on this host with what their agents use, or the agents of one lab.
Memory is resident, CPU time since the agent began; of a container it is the first process's.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := a.labOptions("", false)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				info, err := lab.Look(cmd.Context(), args[0], opt)
				if err != nil {
					return err
				}
				return a.printMembers(info)
			}
			infos, err := lab.List(cmd.Context(), opt)
			if err != nil {
				return err
			}
			return a.printLabs(infos)
		},
	}
}

func (a *app) printLabs(infos []lab.Info) error {
	if a.output == "json" {
		return a.printJSON(infos)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LAB\tSTATUS\tRUNTIME\tNAMESPACES\tAGENTS\tMEMORY\tCPU\tSINCE")
	for _, i := range infos {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n",
			i.Lab, i.Status, i.Runtime, i.Namespaces, i.Agents, mib(i.MemoryBytes), seconds(i.CPUSeconds), i.Since())
		for _, d := range i.Damage {
			fmt.Fprintf(w, "\t  %s\n", d)
		}
	}
	return w.Flush()
}

func (a *app) printMembers(info lab.Info) error {
	if a.output == "json" {
		return a.printJSON(info)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tRUNTIME\tID\tPID\tMEMORY\tCPU")
	for _, m := range info.Members {
		id, used := "-", mib(m.MemoryBytes)
		if m.ID != "" {
			id = m.ID[:min(12, len(m.ID))]
		}
		if !m.Alive {
			used = "dead"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Node, info.Runtime, id, m.PID, used, seconds(m.CPUSeconds))
	}
	for _, d := range info.Damage {
		fmt.Fprintf(w, "damaged: %s\n", d)
	}
	return w.Flush()
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect LAB",
		Short: "Show a lab's nodes, links and agents",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := a.labOptions("", false)
			if err != nil {
				return err
			}
			d, err := lab.Inspect(cmd.Context(), args[0], opt)
			if err != nil {
				return err
			}
			if a.output == "json" {
				return a.printJSON(d)
			}
			return a.printDetail(d)
		},
	}
}

// printLab prints a new lab that `up -d` leaves running.
func (a *app) printLab(info lab.Info) error {
	if a.output == "json" {
		return a.printJSON(info)
	}
	fmt.Fprintf(a.stdout, "%s: %s, %d namespaces, %d agents\n", info.Lab, info.Status, info.Namespaces, info.Agents)
	return nil
}

func (a *app) printDetail(d *lab.Detail) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s, rate scale %g, time scale %g\n", d.Lab, d.Status, d.Scale.Rate, d.Scale.Time)
	for _, part := range d.Damage {
		fmt.Fprintf(w, "damaged: %s\n", part)
	}
	fmt.Fprintln(w, "\nNODE\tNAMESPACE\tADDRESSES\tAGENT\tIN FLIGHT\tRESERVED\tKV FREE\tCACHED\tCONNECTIONS")
	for _, n := range d.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.Node, n.Namespace, strings.Join(n.Addresses, " "), n.AgentText())
	}
	fmt.Fprintln(w, "\nLINK\tTIER\tRATE\tEMULATED\tQUEUE UP\tQUEUE DOWN")
	for _, l := range d.Links {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", l.Link, l.Tier, l.Rate, l.RateEmulated, l.Up.Text(), l.Down.Text())
	}
	return w.Flush()
}
