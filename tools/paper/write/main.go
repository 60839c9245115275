// Command write makes docs/paper.md. With -run it first runs the page's sweeps in the flow world
// (with -only, one of them) and writes their tables to docs/paper; without -run it uses the
// existing tables. With -packet SWEEP/LABELS it adds the packet world's figures of a run folder
// to docs/paper-packet.json. Run it in tools/.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/internal/sweep"
	"github.com/netkvlab/netkvlab/tools/paper"
)

type options struct {
	docs, work, packet string
	version, only      string
	run                bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var opt options
	flag.StringVar(&opt.docs, "docs", "../docs", "folder of paper.md")
	flag.StringVar(&opt.work, "work", "../bin/paper", "where sweeps are kept; one that was stopped goes on")
	flag.StringVar(&opt.version, "version", "unknown", "of the program, so that a stopped sweep is not gone on with by another")
	flag.StringVar(&opt.only, "only", "", "of the sweeps, run this one")
	flag.BoolVar(&opt.run, "run", false, "run the sweeps")
	flag.StringVar(&opt.packet, "packet", "", "SWEEP/LABELS that the run folders given as arguments are a cell of")
	flag.Parse()
	if err := run(ctx, opt, flag.Args(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opt options, folders []string, log io.Writer) error {
	if opt.packet != "" {
		if err := takePacket(opt, folders); err != nil {
			return err
		}
	}
	if opt.run {
		sweeps := paper.Sweeps()
		if opt.only != "" {
			if !slices.Contains(sweeps, opt.only) {
				return fmt.Errorf("-only %s: the page has %s", opt.only, strings.Join(sweeps, ", "))
			}
			sweeps = []string{opt.only}
		}
		for _, name := range sweeps {
			if err := runSweep(ctx, opt, name, log); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(opt.work); err != nil { // completely, so that the next run starts from the beginning
			return err
		}
	}
	d, err := paper.ReadData(os.DirFS(opt.docs))
	if err != nil {
		return err
	}
	page, err := paper.Page(d)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(opt.docs, "paper.md"), []byte(page), 0o644)
}

// runSweep writes a sweep's table, and the heat map of Fig. 1, to the docs.
func runSweep(ctx context.Context, opt options, name string, log io.Writer) error {
	s, err := sweep.Load(name)
	if err != nil {
		return err
	}
	begun := time.Now()
	res, err := sweep.Run(ctx, s, sweep.Options{Dir: filepath.Join(opt.work, name), Version: opt.version})
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%s: %d trials, %v\n", name, res.Total, time.Since(begun).Round(100*time.Millisecond))
	var table, svg bytes.Buffer
	if err := sweep.WriteCSV(&table, s, res.Rows); err != nil {
		return err
	}
	folder := filepath.Join(opt.docs, paper.DataFolder)
	errs := []error{os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, name+".csv"), table.Bytes(), 0o644)}
	if name == "paper-fig1" {
		sweep.WriteSVG(&svg, res.Maps)
		errs = append(errs, os.WriteFile(filepath.Join(folder, name+".svg"), svg.Bytes(), 0o644))
	}
	return errors.Join(errs...)
}

// takePacket adds the figures of run folders to the packet file.
func takePacket(opt options, folders []string) error {
	if len(folders) == 0 {
		return errors.New("-packet: name the run folders")
	}
	file := filepath.Join(opt.docs, paper.PacketFile)
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p paper.Packet
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	slices.Sort(folders)
	for _, f := range folders {
		if err := p.Take(opt.packet, os.DirFS(f)); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	out, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(out, '\n'), 0o644)
}
