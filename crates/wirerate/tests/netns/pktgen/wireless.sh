#!/bin/sh
# Ten thousand frames of 600 bytes from a wireless station; the first argument is the MAC address of its access point.
set -e
modprobe pktgen
cd /proc/net/pktgen
echo "rem_device_all" >kpktgend_0
echo "add_device wlan1" >kpktgend_0
echo "count 10000" >wlan1
echo "pkt_size 600" >wlan1
echo "dst 192.168.1.1" >wlan1
echo "dst_mac $1" >wlan1
echo "start" >pgctrl
cat wlan1
