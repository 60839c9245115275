package paper

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/netkvlab/netkvlab/internal/analysis"
)

// PacketFile has the results of labs, in the page's folder: see Packet.
const PacketFile = "paper-packet.json"

// DataFolder has one table per sweep, in the page's folder.
const DataFolder = "paper"

// Data is all data of the page.
type Data struct {
	Tables map[string]*Table // by the sweep's name
	Packet Packet
}

// Table is a sweep's table, with the results of each cell's trials.
type Table struct {
	Name   string
	Axes   []string
	Cells  [][]string // the labels of each cell, in the order of the table
	values map[string]map[uint64]map[string]float64
	seeds  map[string][]uint64
}

// Packet holds the results of the packet world, by "sweep/labels/policy/metric". A missing cell
// was not run.
type Packet struct {
	Note  string             `json:"note"`
	Cells map[string]float64 `json:"cells"`
}

// ReadData reads the data of the page from the docs folder.
func ReadData(docs fs.FS) (*Data, error) {
	d := &Data{Tables: map[string]*Table{}}
	for _, name := range Sweeps() {
		f, err := docs.Open(DataFolder + "/" + name + ".csv")
		if err != nil {
			return nil, fmt.Errorf("table of sweep %s (make paper writes it): %w", name, err)
		}
		t, err := readTable(name, csv.NewReader(f))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		d.Tables[name] = t
	}
	data, err := fs.ReadFile(docs, PacketFile)
	if err != nil {
		return nil, fmt.Errorf("figures of the packet world: %w", err)
	}
	if err := json.Unmarshal(data, &d.Packet); err != nil {
		return nil, fmt.Errorf("%s: %w", PacketFile, err)
	}
	return d, nil
}

func readTable(name string, r *csv.Reader) (*Table, error) {
	lines, err := r.ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("table of sweep %s: %w", name, err)
	case len(lines) < 2:
		return nil, fmt.Errorf("table of sweep %s is empty (make paper writes it)", name)
	}
	head := lines[0]
	policy := slices.Index(head, "policy")
	seed := slices.Index(head, "seed")
	if policy < 1 || seed != policy+1 {
		return nil, fmt.Errorf("table of sweep %s: columns %v are none of a sweep", name, head)
	}
	t := &Table{Name: name, Axes: head[1:policy], values: map[string]map[uint64]map[string]float64{}, seeds: map[string][]uint64{}}
	for n, line := range lines[1:] {
		labels := line[1:policy]
		if !slices.ContainsFunc(t.Cells, func(c []string) bool { return slices.Equal(c, labels) }) {
			t.Cells = append(t.Cells, labels)
		}
		s, err := strconv.ParseUint(line[seed], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("table of sweep %s, line %d: seed: %w", name, n+2, err)
		}
		row := map[string]float64{}
		for i := seed + 1; i < len(line); i++ {
			if line[i] == "" {
				continue
			}
			v, err := strconv.ParseFloat(line[i], 64)
			if err != nil {
				return nil, fmt.Errorf("table of sweep %s, line %d: %s: %w", name, n+2, head[i], err)
			}
			row[head[i]] = v
		}
		k := key(labels, line[policy])
		if t.values[k] == nil {
			t.values[k] = map[uint64]map[string]float64{}
		}
		t.values[k][s] = row
		t.seeds[k] = append(t.seeds[k], s)
	}
	return t, nil
}

func key(labels []string, policy string) string { return strings.Join(labels, "|") + "|" + policy }

// Mean is a metric's mean over the seeds of a cell, and the half width of its interval.
func (t *Table) Mean(labels []string, policy, metric string) (mean, ci float64) {
	var v []float64
	k := key(labels, policy)
	for _, s := range t.seeds[k] {
		x, ok := t.values[k][s][metric]
		if !ok {
			x = math.NaN()
		}
		v = append(v, x)
	}
	return analysis.Mean(v)
}

// Change is a policy's change against a baseline, paired by seed: relative in per cent, or the
// difference times factor if factor is not 0.
func (t *Table) Change(labels []string, policy, baseline, metric string, factor float64) (mean, ci float64) {
	var v []float64
	k, b := key(labels, policy), key(labels, baseline)
	for _, s := range t.seeds[k] {
		x, ok := t.values[k][s][metric]
		y, ok2 := t.values[b][s][metric]
		switch {
		case !ok || !ok2:
		case factor != 0:
			v = append(v, factor*(x-y))
		default:
			v = append(v, analysis.Change(x, y))
		}
	}
	return analysis.Mean(v)
}

// Ratio is a policy's metric in one cell divided by that in another, paired by seed.
func (t *Table) Ratio(labels, base []string, policy, metric string) (mean, ci float64) {
	var v []float64
	k, b := key(labels, policy), key(base, policy)
	for _, s := range t.seeds[k] {
		x, ok := t.values[k][s][metric]
		y, ok2 := t.values[b][s][metric]
		if ok && ok2 && y != 0 {
			v = append(v, x/y)
		}
	}
	return analysis.Mean(v)
}

// packet is the packet world's figure of a cell, NaN if it was not run.
func (d *Data) packet(table string, labels []string, policy, metric string) float64 {
	if v, ok := d.Packet.Cells[PacketKey(table, labels, policy, metric)]; ok {
		return v
	}
	return math.NaN()
}

// PacketKey names a figure in PacketFile.
func PacketKey(table string, labels []string, policy, metric string) string {
	return strings.Join([]string{table, strings.Join(labels, ","), policy, metric}, "/")
}

// Sweeps are the embedded sweeps that the page shows, in its order.
func Sweeps() []string {
	return []string{
		"paper-table2", "paper-table3", "paper-table4", "paper-table5", "paper-fig1", "paper-fig2", "paper-fig3",
		"open-placement", "open-compression", "open-streams", "open-pipelining", "open-tenants", "open-tenants-unseparated",
	}
}
