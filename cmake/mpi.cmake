# Whether the exchange has its transport over MPI: SHARDLIGHT_HAS_MPI, and the target MPI::MPI_C for
# all folders. Without it connect_mpi says what is missing.
option(SHARDLIGHT_MPI "Build the mpi transport where MPI is found" ON)
set(SHARDLIGHT_HAS_MPI OFF)
if(SHARDLIGHT_MPI)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(SHARDLIGHT_HAS_MPI ON)
  endif()
endif()
