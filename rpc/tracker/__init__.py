"""Boards behind a stock TVM RPC tracker."""
