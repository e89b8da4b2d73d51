// Drives `wirerate otg` with gosnappi between two ports, and prints what it saw as JSON.
//
//	gosnappi LOCATION TRANSPORT TX RX
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/open-traffic-generator/snappi/gosnappi"
)

const timeout = 60 * time.Second

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect(location, transport string) gosnappi.Api {
	api := gosnappi.NewApi()
	if transport == "grpc" {
		api.NewGrpcTransport().SetLocation(location).SetRequestTimeout(timeout)
	} else {
		api.NewHttpTransport().SetLocation(location).SetVerify(false)
	}
	api.SetVersionCompatibilityCheck(true)
	return api
}

func addFlow(config gosnappi.Config, name, tx, rx string, packets, size uint32) {
	flow := config.Flows().Add().SetName(name)
	flow.TxRx().Port().SetTxName(tx).SetRxNames([]string{rx})
	flow.Metrics().SetEnable(true).SetLoss(true).Latency().SetEnable(true)
	flow.Rate().SetPps(2000)
	flow.Size().SetFixed(size)
	flow.Duration().FixedPackets().SetPackets(packets)
	ethernet := flow.Packet().Add().Ethernet()
	ethernet.Src().SetValue("02:00:00:00:00:01")
	ethernet.Dst().SetValue("02:00:00:00:00:02")
	ip := flow.Packet().Add().Ipv4()
	ip.Src().SetValue("198.18.0.1")
	ip.Dst().SetValue("198.18.0.2")
	flow.Packet().Add().Udp().DstPort().Increment().SetStart(4000).SetCount(16)
}

// What was seen of a flow: frames and bytes sent and received, loss, a latency that can be true.
func row(metric gosnappi.FlowMetric) []any {
	latency := metric.Latency()
	lowest, mean, highest := latency.MinimumNs(), latency.AverageNs(), latency.MaximumNs()
	plausible := 0 < lowest && lowest <= mean && mean <= highest && highest < 1e9
	return []any{metric.FramesTx(), metric.FramesRx(), metric.BytesTx(), metric.BytesRx(), metric.Loss(), plausible}
}

func main() {
	if len(os.Args) != 5 {
		check(fmt.Errorf("usage: gosnappi LOCATION TRANSPORT TX RX"))
	}
	api := connect(os.Args[1], os.Args[2])
	config := gosnappi.NewConfig()
	config.Ports().Add().SetName("tx").SetLocation(os.Args[3])
	config.Ports().Add().SetName("rx").SetLocation(os.Args[4])
	addFlow(config, "there", "tx", "rx", 1000, 64)
	addFlow(config, "back", "rx", "tx", 7, 200)
	warning, err := api.SetConfig(config)
	check(err)

	state := gosnappi.NewControlState()
	state.Traffic().FlowTransmit().SetState(gosnappi.StateTrafficFlowTransmitState.START)
	_, err = api.SetControlState(state)
	check(err)

	request := gosnappi.NewMetricsRequest()
	request.Flow()
	rows := map[string][]any{}
	for end := time.Now().Add(timeout); len(rows) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			check(fmt.Errorf("flows were not stopped after %v", timeout))
		}
		metrics, err := api.GetMetrics(request)
		check(err)
		rows = map[string][]any{}
		for _, metric := range metrics.FlowMetrics().Items() {
			if metric.Transmit() == gosnappi.FlowMetricTransmit.STOPPED {
				rows[metric.Name()] = row(metric)
			}
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"warnings": len(warning.Warnings()), "rows": rows}))
}
