package fdbshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// leaseServer is etcd's Lease service.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	server *Server
}

// LeaseGrant implements pb.LeaseServer.
func (l leaseServer) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	id, err := l.server.store.grant(r.ID, r.TTL)
	if err != nil {
		return nil, err
	}
	return &pb.LeaseGrantResponse{Header: l.server.now(), ID: id, TTL: r.TTL}, nil
}

// LeaseRevoke implements pb.LeaseServer.
func (l leaseServer) LeaseRevoke(_ context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if err := l.server.store.revoke(r.ID); err != nil {
		return nil, err
	}
	return &pb.LeaseRevokeResponse{Header: l.server.now()}, nil
}

// LeaseKeepAlive implements pb.LeaseServer.
func (l leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil // the client has gone, or Close was called
		}
		resp := &pb.LeaseKeepAliveResponse{Header: l.server.now(), ID: r.ID, TTL: l.server.store.keepAlive(r.ID)}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// maintenanceServer is of etcd's Maintenance service what clients want to know.
type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	server *Server
}

// Status implements pb.MaintenanceServer.
func (m maintenanceServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: m.server.now(), Version: m.server.opts.Version, Leader: m.server.member, DbSize: 1, DbSizeInUse: 1, RaftTerm: 1}, nil
}

// clusterServer is of etcd's Cluster service what clients want to know.
type clusterServer struct {
	pb.UnimplementedClusterServer
	server *Server
}

// MemberList implements pb.ClusterServer. A process knows itself alone.
func (c clusterServer) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: c.server.now(), Members: []*pb.Member{
		{ID: c.server.member, Name: "fdbshim", ClientURLs: []string{c.server.Endpoint()}},
	}}, nil
}

// now is the header of an answer that is about no key.
func (s *Server) now() *pb.ResponseHeader {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.header(s.store.readVersionLocked(s.store.spaceLocked(nil)))
}
