package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/nodes/docker"
)

func downCommand(p *printer, l *labs) *cobra.Command {
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
			opt, err := l.options("", false)
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
			if all {
				err = errors.Join(err, dropImages(cmd.Context(), opt, engines))
			}
			opt.Progress.Close()
			if len(removed) > 0 || err == nil {
				err = errors.Join(err, show(p, removed, removedText))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every lab on this host, and the agent images")
	return cmd
}

// dropImages removes the agent images: --all leaves nothing of any lab on the host. The
// calibration belongs to the host and stays.
func dropImages(ctx context.Context, opt lab.Options, engines []*docker.Engine) error {
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

func removedText(w io.Writer, removed []lab.Removed) error {
	for _, r := range removed {
		containers := ""
		if r.Containers > 0 {
			containers = fmt.Sprintf("%d containers, ", r.Containers)
		}
		if r.Nothing {
			fmt.Fprintf(w, "%s: nothing to remove\n", r.Lab)
		} else {
			fmt.Fprintf(w, "%s: removed %d namespaces, %sended %d processes\n", r.Lab, r.Namespaces, containers, r.Processes)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
	if len(removed) == 0 {
		fmt.Fprintln(w, "no labs")
	}
	return nil
}
