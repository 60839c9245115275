package results

import (
	"bytes"
	"encoding/csv"
	"strconv"
)

// LinkSample is one line of links.csv: one direction of a link, seen at one moment.
type LinkSample struct {
	TimeMS    float64 // paper time since the trial's start
	World     string
	Policy    string
	Seed      uint64
	Link      string // "tor0-0>agg0-1" or any name that is unique in the plan
	Direction string // up (away from the hosts) or down
	// BytesEmulated counts bytes since the trial's start, of Ethernet frames in
	// the packet world and of payload in the flow world.
	BytesEmulated int64
	// Utilization is the share of the link's rate used since the previous sample, 0..1.
	Utilization float64
	// Drops counts packets dropped since the trial's start; 0 in the flow world.
	Drops int64
	// BacklogBytes is what waits in the port's queue at this time.
	BacklogBytes int64
	// Marks counts packets marked (ECN) since the trial's start; 0 where queues only drop.
	Marks int64
}

const linksHeader = "time_ms,world,policy,seed,link,direction,bytes_emulated,utilization,drops,backlog_bytes,marks\n"

// appendCSV appends the sample's line in the order of linksHeader.
func (s *LinkSample) appendCSV(line []byte) []byte {
	buf := bytes.NewBuffer(line)
	w := csv.NewWriter(buf) // writes to a bytes.Buffer never fail, so Error stays nil
	_ = w.Write([]string{
		strconv.FormatFloat(s.TimeMS, 'f', 3, 64), s.World, s.Policy, strconv.FormatUint(s.Seed, 10),
		s.Link, s.Direction, strconv.FormatInt(s.BytesEmulated, 10),
		strconv.FormatFloat(s.Utilization, 'f', 4, 64), strconv.FormatInt(s.Drops, 10), strconv.FormatInt(s.BacklogBytes, 10), strconv.FormatInt(s.Marks, 10),
	})
	w.Flush()
	return buf.Bytes()
}
