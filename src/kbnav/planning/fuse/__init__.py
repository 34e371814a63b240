"""``plan-fuse``: a planner's paths fused with texts, by weights that were learned."""
