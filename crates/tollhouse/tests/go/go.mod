module tollhouse.test/peer

go 1.21
