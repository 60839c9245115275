package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/lab"
)

func (a *app) downCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down LAB | --all",
		Short: "Remove a lab, whatever state it is in",
		Long: `Removes a lab's agents, namespaces and state. It works from the kernel's own state,
so it also removes labs whose folder is lost or damaged, and it touches nothing
that is not marked as the lab's. What up --parallel made beside a lab goes with it.

Agents, and commands that exec started, get SIGTERM and two seconds. Programs that
something else started in a node's network (nsenter, ip netns exec) are named and left
alone, and so is the shell that down is called from: the network around them loses its
name and its links, and ends with them.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usagef("name one lab, or --all (see `netkvlab ps`)")
			}
			opt, err := a.labOptions("", false)
			if err != nil {
				return err
			}
			defer opt.Progress.Close()
			names := args
			if all {
				if names, err = lab.All(cmd.Context(), opt); err != nil {
					return err
				}
			}
			engines := opt.Engines(names) // before the removal, which also removes the labs' engine addresses
			removed, err := lab.DownAll(cmd.Context(), names, opt)
			errs := []error{err}
			if all {
				errs = append(errs, dropImages(cmd.Context(), opt, engines))
			}
			opt.Progress.Close()
			if len(removed) > 0 || errors.Join(errs...) == nil {
				errs = append(errs, a.printRemoved(removed))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every lab on this host, and the agent images")
	return cmd
}

// dropImages removes the agent images: --all leaves nothing of any lab on the host. The
// calibration belongs to the host and stays.
func dropImages(ctx context.Context, opt lab.Options, engines []lab.Containers) error {
	var errs []error
	for _, engine := range engines {
		images, err := engine.RemoveImages(ctx)
		for _, ref := range images {
			opt.Progress.Note("removed image %s", ref)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func containersText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d containers, ", n)
}

func (a *app) printRemoved(removed []lab.Removed) error {
	if a.output == "json" {
		return a.printJSON(removed)
	}
	for _, r := range removed {
		if r.Nothing {
			fmt.Fprintf(a.stdout, "%s: nothing to remove\n", r.Lab)
		} else {
			fmt.Fprintf(a.stdout, "%s: removed %d namespaces, %sended %d processes\n", r.Lab, r.Namespaces, containersText(r.Containers), r.Processes)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(a.stdout, "  %s\n", n)
		}
	}
	if len(removed) == 0 {
		fmt.Fprintln(a.stdout, "no labs")
	}
	return nil
}
